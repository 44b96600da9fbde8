"""What the forkserver imports before it forks: all that a first task or cell is likely to need."""

import cloudpickle
import numpy

import workbench.api.functions
import workbench.host.cells
import workbench.host.setup
import workbench.interop.registration
import workbench.worker.executor

__all__ = ["cloudpickle", "numpy", "workbench"]
