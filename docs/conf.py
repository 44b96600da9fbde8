"""How Sphinx makes the pages: `make docs`. What is here has no text of its own."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import workbench

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

# Sphinx takes pages from below its folder only, and follows links to where they lead.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks")
# Notebooks and what their checks say link to pages as they are found beside them.
for notebook in (HERE / "notebooks").glob("*.ipynb"):
    pages = re.sub(r'(href=\\"\.\.)/docs(/[\w/-]+)\.md\b', r"\1\2.html", notebook.read_text())
    notebook.write_text(pages.replace("](../docs/", "](../"))

project = "Workbench"
author = copyright = "The Workbench developers"
version = release = workbench.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "parsers",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
]
exclude_patterns = ["**/.ipynb_checkpoints"]
suppress_warnings = [
    "myst.header",
    "mystnb.unknown_mime_type",  # a view's: it has a still form too
    "misc.highlighting_failure",  # what magics take and what errors say is no Python
]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in docstrings are words for people

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # they are kept with their output, and run by the tests

autodoc_member_order = "groupwise"
autodoc_typehints = "none"  # numpydoc has them
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "Workbench"
html_theme_options = {
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_static_path = ["static"]
html_css_files = ["outputs.css"]
html_show_sourcelink = False
