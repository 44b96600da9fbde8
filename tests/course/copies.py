"""Answers to notebook 02: copies.txt."""

from __future__ import annotations

from tests.course.answers import read

WORTH = "mean_worth = 10_000 * mine.prod(axis=0).mean()"
CHANGED = "changed = measure.where(mine)"

ADVISED = "%%remote --wait\nfutures = futures.copy()\nfutures[0] = futures[0] / 2\n"
HALVED = f"{WORTH}\n{CHANGED}".replace("mine", "futures")
RUN = f"get_ipython().run_cell({ADVISED + HALVED!r})\n"
"""What the error advises: the kernel's `futures` is the halved one from then on."""

ANSWERS = read(__file__, globals())
