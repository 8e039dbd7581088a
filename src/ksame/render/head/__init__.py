"""Replace whole heads: a region per group, a fill from outside of all regions, and a synthetic head."""
