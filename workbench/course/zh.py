"""The course in Chinese: `check` and `reveal` with the words of ``zh.po``.

In a notebook: ``from workbench.course.zh import check, measure, reveal``. Notebooks' own text is in
the notebooks, ``NAME.zh.ipynb``.
"""

from __future__ import annotations

from workbench.course import measure
from workbench.course.checks import Checks
from workbench.course.reveals import revealing
from workbench.course.words import words_of

__all__ = ["check", "measure", "reveal"]

_WORDS = words_of("zh")

check = Checks(_WORDS)
reveal = revealing(_WORDS)
