"""RENDER: portraits, scenes, covers, and overlays for video."""
