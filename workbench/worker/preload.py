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
"""`html` and `unicodedata` are needed to word errors: imported only then, a file of that name
beside
the notebook could be taken for them."""
