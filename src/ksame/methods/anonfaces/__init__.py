"""AnonFACES: draw one generated portrait for each group [A]."""
