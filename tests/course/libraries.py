"""Answers to notebook 08."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

INK = """
from {} as Executor

def ink(digit):
    return os.getpid(), float(X[y == digit].mean())

with Executor() as executor:
    inks = list(executor.map(ink, range({})))
"""


ANSWERS = Answers(
    guesses={
        "loky": "guess_loky = 'copy'",
        "workbench": "guess_workbench = 'shared'",
        "stored": "guess_stored = 2",
    },
    wrong={
        "on_the_pool": [
            Wrong(INK.format("concurrent.futures import ThreadPoolExecutor", 10), "own process"),
            Wrong(INK.format("workbench import Executor", 3), "has 3 results"),
            almost("inks = [(1, 0.5), *inks[:0], *[(1, 0.5)] * 9]", "session's workers"),
            almost("inks = [(1, 0.5)] * 6 + [(os.getpid(), 0.5)] * 4", "4 of 10"),
        ],
        "given_back": [
            Wrong("%free y", "named"),
            almost("%free X", "arrays"),
            almost("X = X.copy()", r"`X` is an array of 41\.4 MB of your kernel's own"),
        ],
    },
    right={"on_the_pool": INK.format("workbench import Executor", 10), "given_back": "del X"},
)
