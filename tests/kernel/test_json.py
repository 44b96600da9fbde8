"""Every answer as JSON: it has the fields that docs/reference/json.md names and shows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import Kernel

PAGE = Path(__file__).parents[2] / "docs/reference/json.md"

SECTION = re.compile(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)

BLOCK = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)

BEGIN = """\
import numpy as np, pandas as pd, threading
from workbench import cli
from workbench.ipython import answers
big, lock, lines = np.ones(10**6), [threading.Lock()], (n for n in [1])
train = wb.put(big, name="train")
hits = wb.remote(type("Counter", (), {})).options(name="hits").remote()
frame = pd.DataFrame({"day": ["Mon"] * 300, "sold": range(300)})
def ask(*question):
    cli.main([*question, "--json"])
def tell(what, name=""):
    print(answers.ask("explain", {"what": what, "name": name}))
name = wb.api.engine().session.rpartition("~")[0]
"""

STATE = """\
print(answers.ask("state", {"names": ["big", "bgi"], "values": True, "since": 3}))
del gone; grown = [1]"""

QUESTIONS = {
    "objects": ("%objects --json", "ask('objects', name)"),
    "why": (
        "%why --json train big",
        "ask('why', name, 'train')",
        "tell('why', 'big')",
    ),
    "inspect": ("%inspect --json lock", "tell('inspect', 'lock')"),
    "cost": ("%cost --json frame", "tell('cost', 'frame')"),
    "memory": ("%workbench memory --json", "tell('memory')"),
    "error": ("tell('why', 'bgi')",),
    "jobs": ("%workbench jobs --json",),
    "job": ("%workbench jobs fit --json --from 4",),
    "history": ("%workbench history --json",),
    "branches": ("%workbench branches --json",),
    "lost": ("%workbench lost --json",),
    "state": (STATE,),
    "changed": ("print(answers.ask('changed', {}))",),
    "ps": ("ask('ps')",),
    "cache": ("ask('cache')",),
    "open": ("ask('open', file)",),
    "doctor": ("ask('doctor')",),
    "stop": ("ask('stop', name)",),
}
"""By kind of document, who makes one; the last one ends the session."""


def fields(value: Any, known: Collection[str], path: str = "") -> Iterator[str]:
    """Paths of all leaves: ``objects[].id``; ``{}`` stands for what varies."""
    if f"{path}{{}}" in known:
        yield f"{path}{{}}"
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from fields(each, known, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for each in value or [None] * (f"{path}[]" in known):
            yield from fields(each, known, f"{path}[]")
    else:
        yield path


@pytest.fixture
def lab(fresh: Kernel, tmp_path: Path) -> Kernel:
    fresh.ok("%workbench start --session answers --workers 2\n%workbench keep")
    fresh.ok(BEGIN + f"gone, file = 1, {str(tmp_path / 'f.wb')!r}\n%workbench save {tmp_path}/f.wb")
    fresh.ok("%%remote --wait --name fit\nprint('one\\ntwo')\nscore = 0.5")
    fresh.ok("%workbench branch try")
    return fresh


def test_each_answer_has_the_fields_that_are_documented(lab: Kernel) -> None:
    pages = dict(SECTION.findall(PAGE.read_text()))
    assert list(pages) == list(QUESTIONS)
    for kind, questions in QUESTIONS.items():
        known, common = set(ROW.findall(pages[kind])), {"version", "kind"}
        (example,) = map(json.loads, BLOCK.findall(pages[kind]))
        seen = set(fields(example, known))
        assert seen - common <= known, kind
        for question in questions:
            cell = lab.ok(question)
            made = json.loads(cell.text() or cell.results()[0])
            assert cell.results("application/json") in ([], [made])
            assert (made["version"], made["kind"]) == (1, kind)
            assert made.keys() == example.keys(), question
            found = set(fields(made, known))
            assert found - common <= known, question
            seen |= found
        assert seen - common == known, kind
