"""The command line: parse, call, print. Messages go to stderr; stdout is for ``--json``."""

from __future__ import annotations

from ksame.cli import lab_commands, release_commands
from ksame.cli.shell import app, console, main

__all__ = ["app", "console", "main"]

COMMANDS = (release_commands, lab_commands)  # importing them is what gives the app its commands
