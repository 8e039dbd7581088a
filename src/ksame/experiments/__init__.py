"""The papers' tables and figures, done again on any set of faces."""
