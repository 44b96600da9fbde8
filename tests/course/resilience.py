"""Answers to notebook 09: resilience.txt."""

from __future__ import annotations

from tests.course.answers import read

START = """
%env WORKBENCH_SESSION=nothing-is-lost
%env WORKBENCH_LINGER=2m
%env WORKBENCH_WORKERS=2
%load_ext workbench
import os, sys, tempfile
from pathlib import Path
import numpy as np, workbench as wb
from workbench.course import check, measure, reveal
"""

ANSWERS = read(__file__, globals())
