"""Answers to notebook 09. The kernel is restarted in them, as a person does it."""

from __future__ import annotations

from tests.course.answers import RESTART, Answers, Wrong, almost, edit

START = """
%env WORKBENCH_SESSION=nothing-is-lost
%env WORKBENCH_LINGER=2m
%env WORKBENCH_WORKERS=2
%load_ext workbench
import os, sys, threading, time
import numpy as np, workbench as wb
from workbench.course import check, measure, reveal
"""

# It ends when the store has an object of the name `go`.
FLOOD = """
%%remote --name flood
import threading, time
import workbench as wb
flood = [(time.time(), 300, 0.1)]
while not len(wb.objects("go")):
    threading.Event().wait(0.02)
flood.append((time.time(), 800, 0.9))
"""

GREET = """
import subprocess, sys
done = subprocess.run([sys.executable, "-c", '''
import workbench as wb
wb.init(session="nothing-is-lost")
wb.put("hello", name="greeting")
'''], check=True)
"""

GREETER = """
@wb.remote
class Greeter:
    def greet(self):
        return wb.put("hello", name="greeting")

greeter = Greeter.remote()
ref = wb.get(greeter.greet.remote())
"""

ANSWERS = Answers(
    guesses={
        "restart": "guess_restart = 1\n%put guess_restart",
        "flood": "guess_flood = 'goes on'\n%put guess_flood",
        "share": "guess_share = 'shared'",
        "left": "guess_left = 'everything'",
    },
    wrong={
        "restarted": [
            Wrong(source, "still the kernel that ran the cells above")
            for source in ("%reset -f in", "%reset -f", START)
        ],
        "went_on": [
            Wrong("del flood", "has no variable `flood`"),
            Wrong("flood = wb.put(1)", "is no list yet"),
            almost("flood = [(time.time(), 300, 0)]", "began in this kernel"),
            almost("flood = [(0, 300, 0), (1, 400, 0)]", "had ended before"),
        ],
        "greeting": [
            almost("greeting = 'hello'\n%put greeting", "this notebook itself"),
            almost(
                "put = wb.remote(lambda: wb.put('hello', name='greeting'))\n"
                "ref = wb.get(put.remote())",
                "a worker of this notebook",
            ),
            almost(GREETER, "a worker of this notebook"),
        ],
        "differs": [
            Wrong("differs = wb.put(0.19)", "is no number yet"),
            almost("differs = float((land > 300).mean())", "differ so much"),
            almost(edit("= fine  ", "= land[0, ::10]"), "differ so much"),
        ],
    },
    right={
        "restarted": f"{RESTART}{START}",
        "went_on": f"{FLOOD.strip()}\n{RESTART}{START}wb.put(1, name='go')\n%get flood",
        "greeting": GREET,
        "differs": edit("= fine  ", "= land[::10, ::10].ravel()"),
    },
)
