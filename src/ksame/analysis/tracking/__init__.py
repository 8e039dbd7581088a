"""Faces through a video: scan, propagate, link, smooth, and the track file."""
