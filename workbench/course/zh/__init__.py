"""The course in Chinese: `check` and `reveal` with the words of the modules beside this one.

In a notebook: ``from workbench.course.zh import check, measure, reveal``. Notebooks' own text is in
the notebooks, ``NAME.zh.ipynb``.
"""

from __future__ import annotations

from workbench.course import measure
from workbench.course.checks import Checks
from workbench.course.reveals import revealing
from workbench.course.words import Words
from workbench.course.zh import copies, machinery, pickling

__all__ = ["WORDS", "check", "measure", "reveal"]

WORDS: Words = {**machinery.WORDS, **copies.WORDS, **pickling.WORDS}

check = Checks(WORDS)
reveal = revealing(WORDS)
