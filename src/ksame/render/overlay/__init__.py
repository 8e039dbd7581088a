"""Overlays: a new face drawn over a person's own, frame by frame [S 7.3]."""
