"""Answers to notebook 07: tasks.txt."""

from __future__ import annotations

from tests.course.answers import read

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

ANSWERS = read(__file__, globals())
