"""Workbench, through its public functions."""

from __future__ import annotations

from pools import WORKERS

import workbench
from contestants.remotes import Remotes


class Workbench(Remotes):
    def __init__(self) -> None:
        super().__init__("workbench")

    def start(self) -> None:
        workbench.init(workers=WORKERS)
