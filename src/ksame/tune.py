"""Which k: privacy against utility over k and methods [A 4.4]."""
