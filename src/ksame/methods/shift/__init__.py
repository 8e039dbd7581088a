"""The identity shift: one synthetic identity for each person [S 7]."""
