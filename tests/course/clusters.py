"""Answers to notebook 10."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

HIGHEST = """
get_ipython().run_cell_magic("remote", "-w --map part=range(4)", '''
highest = int(np.array_split(land, 4)[part].{}())
''')
"""

ANSWERS = Answers(
    guesses={"there": "guess_there = 0", "place": "guess_place = 'worker'"},
    wrong={
        "no_file": [
            Wrong(HIGHEST.format("peak"), "makes `highest` has failed"),
            Wrong("highest = 7", "`highest` is of type int"),
            almost(HIGHEST.format("min"), "and the land has"),
        ],
        "line": [
            Wrong('line = "%workbench start \'"', "`line` has another shape .*quotation"),
            almost(
                "line = '%workbench start --engine=dask --address=tcp://a:1'", "but at tcp://a:1"
            ),
            Wrong("line = '%workbench start'", "on this machine's own"),
            Wrong("line = '%workbench start --engine ray'", "on Ray"),
            Wrong("line = '%workbench start --workers 4'", "`--workers` isn't needed here"),
            Wrong("line = '%workbench start tcp://10.0.0.7:8786'", "stands alone"),
            Wrong("line = '%workbench start --engine Dask'", "There is no engine 'Dask'"),
            almost("line = '%workbench start --engine dask'", "at no address"),
        ],
    },
    right={
        "no_file": HIGHEST.format("max"),
        "line": "line = '%workbench start --address tcp://10.0.0.7:8786'",
    },
)
