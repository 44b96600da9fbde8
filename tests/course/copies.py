"""Answers to the exercises of notebook 2."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

WORTH = "mean_worth = 10_000 * mine.prod(axis=0).mean()"
CHANGED = "changed = measure.where(mine)"

ADVISED = "%%remote --wait\nfutures = futures.copy()\nfutures[0] = futures[0] / 2\n"
HALVED = f"{WORTH}\n{CHANGED}".replace("mine", "futures")
RUN = f"get_ipython().run_cell({ADVISED + HALVED!r})\n"
"""What the error advises: the kernel's `futures` is the halved one from then on."""

ANSWERS = Answers(
    guesses={
        "put": 'guess_put = "store"',
        "read": 'guess_read = "shared"',
        "ports": "guess_ports = 0",
        "same": 'guess_same = "another object"',
        "view": 'guess_view = "shared"',
        "cow": "guess_cow = 1",
        "later": "guess_later = 12",
        "list": 'guess_list = "copy"',
    },
    right={
        "one_copy": "%get futures",
        "own_copy": f"%get futures\n{RUN}",
        "put_again": "%put plan",
        "shareable": "months = np.array(months)\n%put months",
    },
    wrong={
        "one_copy": [
            Wrong("futures = wb.get('futures', copy=True)", "19.2 MB of its own"),
            almost("whole = futures\nfutures = wb.put(whole, name='futures')", "is a ref"),
            Wrong("futures = whole\n%free futures", "has no `futures`"),
            almost("%put whole --name futures\n%get futures", "But `whole` has the same numbers"),
            almost("del whole\nfutures = wb.get('futures')[:1]", r"only 1\.6 MB of it"),
            Wrong("del futures", "no variable `futures`"),
        ],
        "own_copy": [
            Wrong("mean_worth = 10_000 * futures.prod(axis=0).mean() / 2", "has failed"),
            almost(f"%%remote --wait\nmine = futures\n{WORTH} / 2\n{CHANGED}", "changed no row"),
            almost(f"%%remote --wait\nmine = futures\n{WORTH}", "wasn't bad"),
            almost(f"%%remote --wait\nmine = futures / 3\n{WORTH}", "was to come out"),
            almost(RUN * 2, "halved 2 times.*aren't those of the store"),
            almost("%get futures", "of your notebook are those of the store"),
        ],
        "put_again": [
            Wrong("plan = {**plan, 'months': 12}", "the old one"),
            Wrong("del plan", "no variable `plan`"),
            Wrong("plan = {'share': 'MSFT', 'months': 24}\n%put --name plans plan", "12 months"),
        ],
        "shareable": [
            Wrong("%put --name months tuple(months)", "no byte in common"),
            almost("%put --name months np.sort(months)", "numbers are others"),
            Wrong("%free months", "has no `months`"),
        ],
    },
)
