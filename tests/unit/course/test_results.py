"""Which exercises a class has done, read from saved notebooks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from workbench.course.results import results

ASKED = "put_again: {}\nThe store has 12 months.\nhint 1: look\n{} 是不是副本？：已完成 {}/4 个练习"


def test_a_row_says_what_is_done_and_what_not(tmp_path: Path) -> None:
    """In any language; the latest output may be of a check that was run earlier."""
    texts = [ASKED.format("Right.", "○○●○", 1), ["not a check: 1\n", "x"],
             ASKED.format("尚未开始。", "●○○○", 1)]  # fmt: skip
    outputs = [{"data": {"text/plain": text}} for text in texts]
    cells = [{"outputs": [output, {"text": "printed"}]} for output in outputs] + [{"source": ""}]
    for folder in ("ada", ".ipynb_checkpoints"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "02.ipynb").write_text(json.dumps({"cells": cells}))
    (tmp_path / "new.ipynb").write_text('{"cells": []}')
    (tmp_path / "torn.ipynb").write_text('{"cells": [')
    rows = [re.split("  +", line) for line in str(results(tmp_path)).splitlines()]
    assert rows == [
        ["notebook", "lesson", "done", "not yet"],
        ["ada/02.ipynb", "Is it a copy?", "2 of 4", "own_copy, shareable"],
        ["new.ipynb", "no check was run"],
        ["torn.ipynb", rows[3][1]],
    ]
    assert rows[3][1].startswith("can't be read: ")
    assert str(results(tmp_path / "no")).endswith(f"There is no notebook in '{tmp_path}/no'.")
