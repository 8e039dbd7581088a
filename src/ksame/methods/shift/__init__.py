"""Identity shift: give each person a synthetic identity [S 7]."""
