"""The course's machinery: guesses beside measurements, exercises that ask the live session.

In a notebook: ``from workbench.course import check, measure, reveal``. What a lesson tells
stands in its notebook; here are only its exercises, a module each.
"""

from __future__ import annotations

from workbench.course import measure
from workbench.course.checks import Checks
from workbench.course.reveals import revealing
from workbench.course.words import ENGLISH

__all__ = ["check", "measure", "reveal"]

check = Checks(ENGLISH)
reveal = revealing(ENGLISH)
