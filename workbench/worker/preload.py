"""Imports of the forkserver before it forks: what a first task or cell is likely to need."""

import html
import unicodedata

import cloudpickle
import numpy

import workbench.api.functions
import workbench.host.cells
import workbench.host.setup
import workbench.interop.registration
import workbench.worker.executor

__all__ = ["cloudpickle", "html", "numpy", "unicodedata", "workbench"]
"""`html` and `unicodedata` serve to word errors. Imported only then, a file of such a name beside
the notebook would be taken for them."""
