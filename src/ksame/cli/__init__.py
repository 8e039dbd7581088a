"""The command line: parse, call, print. Messages go to stderr; stdout is for ``--json``."""

from __future__ import annotations

from ksame.cli import _lab, _release
from ksame.cli._shell import app, console, main

__all__ = ["app", "console", "main"]

COMMANDS = (_release, _lab)  # importing them is what gives the app its commands
