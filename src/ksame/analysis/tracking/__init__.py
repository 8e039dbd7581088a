"""Track faces through a video: scan, propagate, link and smooth; read and write track files."""
