"""Whole synthetic heads in scenes: one for each group of people."""
