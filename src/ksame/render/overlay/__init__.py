"""Overlays: draw a new face over a person's own, frame by frame [S 7.3]."""
