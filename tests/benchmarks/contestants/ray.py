"""Ray on one machine, without its dashboard."""

from __future__ import annotations

import logging

import ray
from pools import WORKERS

from contestants.remotes import Remotes


class Ray(Remotes):
    def __init__(self) -> None:
        super().__init__("ray")

    def start(self) -> None:
        ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR)
