"""What the nursery imports before it forks: all that a first task or cell is likely to need."""

import cloudpickle
import numpy

import workbench.functions
import workbench.worker.cells
import workbench.worker.executor
import workbench.worker.unattended

__all__ = ["cloudpickle", "numpy", "workbench"]
