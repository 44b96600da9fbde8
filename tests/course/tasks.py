"""Answers to notebook 07."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost, edit

BAR = """
@wb.remote
class Bar:
    def __init__(self):
        self.served = 0

    def serve(self):
        self.served {}= 1
        return self.served

bar = Bar.remote()
bill = {}
"""

FALLS = "fallen = cup.fall.remote()"

TASTE = """
tasted = []
@wb.remote
def taste({}):
    return menu[n{}]

for n in range({}):
    tasted.append(taste.remote({}))
"""

# What the button does, pressed when the cell has printed so many lines.
STOP = """
def press():
    from workbench.api import engine, snapshot
    while True:
        found = [job for job in snapshot().jobs if job.name == "counting"][-1:]
        if found and found[0].state == "running" and found[0].lines >= {0}:
            break
        threading.Event().wait(0.01)
    engine().interrupt(-1, [found[0].id], False, 10.0)

import threading
thread = threading.Thread(target=press)
thread.start()
get_ipython().run_cell_magic("remote", "--name counting", '''
import threading
for n in range(1, {0} + 1):
    print(n)
threading.Event().wait()
''')
thread.join()
"""

ANSWERS = Answers(
    guesses={
        "spoon": "guess_spoon = measured_spoon.answer",
        "passed": "guess_passed = 'Spoon'",
        "leborn": "guess_leborn = measured_leborn.answer",
        "two": "guess_two = measured_two.answer",
        "state": "guess_state = 0",
        "stream": "guess_stream = 'first'",
        "crash": "guess_crash = 'tea'",
        "loop": "guess_loop = 20",
    },
    wrong={
        "at_once": [
            Wrong("cups = [Cup.remote(1), Cup.remote(1)]", "Not all cups were stirred"),
            Wrong(edit("Spoon()", "Leborn()"), "Not all cups were stirred"),
            Wrong(edit("[Cup.remote(1), Cup.remote(1)]", "[Cup.remote(1)] * 2"), "1 different cup"),
        ],
        "counter": [
            Wrong("bar, bill = None, list(range(1, 11))", "no actor that lives"),
            almost(BAR.format("+", "[bar.serve.remote() for _ in range(10)]"), "refs"),
            Wrong(BAR.format("+", "wb.get([bar.serve.remote()])"), r"`bill` is \[1\]"),
            almost(BAR.format("*", "list(range(1, 11))"), "next call gave 0"),
        ],
        "asked_again": [
            Wrong("sugar = 'sugar'", "is no ref"),
            Wrong("sugar = wb.put('sugar')", "no task has made it"),
            Wrong(edit("shop.remote", "shop.options(max_retries=5).remote"), "has failed"),
            almost("sugar = fragile.remote(Tries.remote())", "brought 'tea'"),
            almost(
                edit("raise ConnectionError", "return 'sugar'; str"), "`asked` has counted 1 try"
            ),
        ],
        "comes_back": [
            Wrong("cup = None", "is no actor"),
            almost(edit(FALLS, ""), "it never fell"),
            almost(edit(FALLS, f"{FALLS}\ncup = TeaCup.remote()"), "another one fell"),
            Wrong(edit(FALLS, "wb.kill(cup)"), "The cup doesn't answer: .*kill"),
        ],
        "defined_once": [
            Wrong(TASTE.format("n", "", 3, "n"), "has 3 different refs"),
            Wrong(TASTE.format("n, menu", "", 20, "n, menu"), "20 calls 19 more objects"),
            Wrong("tasted = tasted[:1] * 20", "has 1 different ref"),
            almost(TASTE.format("n", " + 10**7", 20, "n"), "a call has failed"),
        ],
        "stop_pressed": [
            Wrong("%%remote --name counting\nprint(1)", "counted to 1, and nobody"),
            Wrong("%%remote --name counting\n1 / 0", "counted to 0, and nobody"),
            almost(STOP.format(10), "not before 10"),
        ],
    },
    right={
        "at_once": edit("wb.get(cup.stir.remote(Spoon()))", "cup.stir.remote(Spoon())"),
        "counter": BAR.format("+", "wb.get([bar.serve.remote() for _ in range(10)])"),
        "asked_again": edit(
            "shop.remote", "shop.options(max_retries=5, retry_exceptions=True).remote"
        ),
        "comes_back": edit("@wb.remote", "@wb.remote(max_restarts=1)"),
        "defined_once": TASTE.format("n", "", 20, "n"),
        "stop_pressed": STOP.format(2),
    },
)
