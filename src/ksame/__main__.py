"""Run the command line as ``python -m ksame``."""

from ksame.cli import main

main()
