"""Answers to notebook 09. The kernel is restarted in them, as a person does it."""

from __future__ import annotations

from tests.course.answers import RESTART, Answers, Wrong, almost, edit

START = """
%env WORKBENCH_SESSION=nothing-is-lost
%env WORKBENCH_LINGER=2m
%env WORKBENCH_WORKERS=2
%load_ext workbench
import os, sys, tempfile
from pathlib import Path
import numpy as np, workbench as wb
from workbench.course import check, measure, reveal
"""

LOAD = "land = np.load(get_sample_data('jacksboro_fault_dem.npz', asfileobj=False))"

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
        "back": "guess_back = 3",
        "undo": "guess_undo = 'the variables'",
        "level": "guess_level = 400",
        "share": "guess_share = 'shared'",
        "left": "guess_left = 'everything'",
    },
    wrong={
        "back": [
            Wrong(source, "still the kernel that ran the cells above")
            for source in ("%reset -f in", "%workbench keep", START)
        ],
        "undone": [
            Wrong("ridge[:] = ridge * 3.28", "add up to"),
            almost(f"{LOAD}['elevation']", "made anew"),
            Wrong("%undo", "add up to"),
        ],
        "branched": [
            Wrong(edit("350", "800"), "under water, at 800 m"),
            almost("part = 0.5", "`part` is 50%"),
            almost("level = 512", "of the land is below 512 m"),
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
        "back": f"{RESTART}{START}",
        "undone": "%undo\n%undo\n%undo",
        "branched": edit("350", "int(np.median(land))"),
        "greeting": GREET,
        "differs": edit("= fine  ", "= land[::10, ::10].ravel()"),
    },
)
