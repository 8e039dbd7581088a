"""Sphinx settings: MyST Markdown and docstrings, no network, a warning is an error."""

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from sphinx.ext import autosummary

sys.path.insert(0, str(Path(__file__).parent))
from api_page import write_api_page
from cli_page import write_cli_page

project = "ksame"
author = "The ksame authors"
copyright = author
release = version = installed("ksame")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "description"  # signatures stay readable; types stand beside the parameters
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autosummary_generate = True
# a summary is the first sentence, and [N fig. 10] does not end it
autosummary.WELL_KNOWN_ABBREVIATIONS += ("alg.", "eq.", "fig.", "thm.", "def.")
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "ksame"

# Both pages are written from the program before every build, so that they cannot drift from it.
REFERENCE = Path(__file__).parent / "reference"
write_cli_page(REFERENCE / "cli.md")
write_api_page(REFERENCE / "api.rst")


def escape_bars(app: object, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Escape vertical bars: docstrings are plain text first, and |x| is a size there and no substitution."""
    lines[:] = [line if "`" in line or ">>>" in line else line.replace("|", r"\|") for line in lines]


def setup(app: Any) -> None:
    """Connect the hook before napoleon reads the docstrings."""
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
