"""Answers to notebook 03."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

ANSWERS = Answers(
    guesses={
        "put": "guess_put = 'live'",
        "del": "guess_del = 'reusable'",
        "pins": "guess_pins = 0.92",
        "costs": "guess_costs = measured_costs.answer",
    },
    wrong={
        "row_gone": [
            Wrong("import gc; gc.collect()", "`first`; arrays in this notebook: `one_row`"),
            Wrong("%free $popped", "The row is still there"),
            almost("del first", "What keeps the object: .*one_row"),
        ],
        "put_once": [
            Wrong("stored = [wb.put(weights)]", "has 1 ref"),
            almost("stored = [darker[0]] * 3", "is not `weights`"),
            almost("stored = [wb.put(weights + 1)] * 3", "is not `weights`"),
        ],
        "running": [
            Wrong("%%remote --name yours\nanswer = 42", "no row `mine`"),
            Wrong("%%remote --name mine\n1 / 0", "has failed"),
            almost("%%remote --name mine\nother = 42", "assigns no `answer`"),
        ],
    },
    right={
        "row_gone": "del one_row",
        "put_once": "stored = [wb.put(weights)] * 3",
        "running": "%%remote --name mine\nanswer = 6 * 7",
    },
)
