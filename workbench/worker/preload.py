"""What the forkserver imports before it forks: all that a first task or cell is likely to need."""

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
"""The standard library's two are for what words errors: that is imported when there is one, and
would take a file of such a name beside the notebook for them."""
