"""Portraits of people who do not exist, drawn by a generator: measured, learnt, and made for groups [A]."""
