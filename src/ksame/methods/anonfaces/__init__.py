"""AnonFACES: one generated portrait for each group [A]."""
