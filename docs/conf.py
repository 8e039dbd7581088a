"""How the pages are built: MyST Markdown, no network, a warning is an error."""

from importlib.metadata import version as installed

project = "ksame"
author = "The ksame authors"
copyright = author
release = version = installed("ksame")

extensions = ["myst_parser"]
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "ksame"
