"""Answers to notebook 07."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

AT_ONCE = """
cups = [Cup.remote(1) for _ in range({})]
wb.get([cup.is_good.remote() for cup in cups])
wb.get([cup.stir.remote(Spoon()) for cup in cups])
"""

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

TEA_CUP = """
@wb.remote{}
class TeaCup:
    def __init__(self):
        self.needs = 3

    def how_many(self):
        return self.needs

    def pid(self):
        return os.getpid()

    def fall(self):
        os._exit(1)

cup = TeaCup.remote()
first_pid = wb.get(cup.pid.remote())
{}
"""

TASTE = """
tasted = []
@wb.remote
def taste(n):
    return menu[n{}]

for n in range({}):
    tasted.append(taste.remote(n))
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
            Wrong("cups = cup", "`cups` has another shape than asked for"),
            Wrong("cups = []", "`cups` has 0 cups"),
        ],
        "counter": [
            Wrong("bar, bill = None, list(range(1, 11))", "no actor that lives"),
            Wrong(BAR.format("+", 5), "`bill` has another shape than asked for"),
            almost(BAR.format("+", "[bar.serve.remote() for _ in range(10)]"), "refs"),
            Wrong(BAR.format("+", "wb.get([bar.serve.remote()])"), r"`bill` is \[1\]"),
            almost(BAR.format("*", "list(range(1, 11))"), "next call gave 0"),
        ],
        "asked_again": [
            Wrong("sugar = 'sugar'", "is no ref"),
            Wrong("sugar = wb.put('sugar')", "no task has made it"),
            Wrong("sugar = ask_shop.options(max_retries=5).remote(Tries.remote())", "has failed"),
            almost("sugar = fragile.remote(Tries.remote())", "brought 'tea'"),
        ],
        "comes_back": [
            Wrong("cup = None", "is no actor"),
            almost(TEA_CUP.format("", ""), "it never fell"),
            almost(
                TEA_CUP.format("", "fallen = cup.fall.remote()\ncup = TeaCup.remote()"),
                "another one fell",
            ),
            Wrong(TEA_CUP.format("", "wb.kill(cup)"), "The cup doesn't answer: .*kill"),
        ],
        "defined_once": [
            Wrong(TASTE.format("", 3), "has 3 refs"),
            almost(TASTE.format(" + 10**7", 20), "a call has failed"),
        ],
        "stop_pressed": [
            Wrong("%%remote --name counting\nprint(1)", "counted to 1, and nobody"),
            almost(STOP.format(5), "not before 5"),
        ],
    },
    right={
        "at_once": AT_ONCE.format(2),
        "counter": BAR.format("+", "wb.get([bar.serve.remote() for _ in range(10)])"),
        "asked_again": "sugar = ask_shop.options(max_retries=5, retry_exceptions=True)"
        ".remote(Tries.remote())",
        "comes_back": TEA_CUP.format("(max_restarts=1)", "fallen = cup.fall.remote()"),
        "defined_once": TASTE.format("", 20),
        "stop_pressed": STOP.format(2),
    },
)
