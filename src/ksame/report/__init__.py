"""The evidence: a release is attacked and measured, and one page tells what was found."""
