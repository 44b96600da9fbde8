"""Every answer as JSON: it has the fields that docs/reference/json.md names and shows."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.kernel.conftest import Kernel

PAGE = Path(__file__).parents[2] / "docs/reference/json.md"

SECTION = re.compile(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)

BEGIN = """\
import numpy as np, pandas as pd, threading
from workbench import cli
from workbench.ipython import answers
big, lock, lines = np.ones(10**6), [threading.Lock()], (n for n in [1])
train = wb.put(big, name="train")
hits = wb.remote(type("Counter", (), {})).options(name="hits").remote()
frame, gone = pd.DataFrame({"day": ["Mon"] * 300, "sold": range(300)}), 1
shell = lambda *words: cli.main([*words, "--json"])
tell = lambda question, **about: print(answers.ask(question, about))
explain = lambda what, name="": tell("explain", what=what, name=name)
"""

QUESTIONS = """\
objects | %objects --json | shell("objects", "lab")
why | %why --json train big | shell("why", "lab", "train") | explain("why", "big")
inspect | %inspect --json lock | explain("inspect", "lock")
cost | %cost --json frame | explain("cost", "frame")
memory | %workbench memory --json | explain("memory")
error | explain("why", "bgi")
jobs | %workbench jobs --json | explain("jobs")
job | %workbench jobs fit --json --from 4 | explain("jobs", "fit")
history | %workbench history --json
branches | %workbench branches --json
lost | %workbench lost --json
state | tell("state", names=["big", "bgi"], values=True, since=3); del gone; grown = [1]
changed | tell("changed")
status | %workbench --json
ps | shell("ps")
cache | shell("cache")
open | shell("open", file)
doctor | shell("doctor")
stop | shell("stop", "lab")"""
"""By kind of document, who makes one."""


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


def test_each_answer_has_the_fields_that_are_documented(fresh: Kernel, tmp_path: Path) -> None:
    fresh.ok("%workbench start --session lab --workers 2\n%workbench keep")
    fresh.ok(f"{BEGIN}file = {str(tmp_path / 'f.wb')!r}\n%workbench save {tmp_path}/f.wb")
    fresh.ok("%%remote --wait --name fit\nprint('one\\ntwo')\nscore = 0.5")
    fresh.ok("%workbench branch try")
    pages = dict(SECTION.findall(PAGE.read_text()))
    for line in QUESTIONS.splitlines():
        kind, *questions = line.split(" | ")
        page = pages.pop(kind)
        known = {"version", "kind", *re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)}
        example = json.loads(page.partition("```json")[2].partition("```")[0])
        seen = set(fields(example, known))
        for question in questions:
            cell = fresh.ok(question)
            made = json.loads(cell.text() or cell.results()[0])
            assert cell.results("application/json") in ([], [made])
            assert (made["version"], made["kind"]) == (1, kind)
            assert made.keys() == example.keys(), question
            seen |= set(fields(made, known))
        assert seen == known, kind
    assert not pages
