"""What an engine has to have: little, and an answer to each question."""

from __future__ import annotations

import ast
import inspect
from types import SimpleNamespace
from typing import Any

from tests.unit.sources import PACKAGE, tree
from workbench.engine.base import Abilities
from workbench.engine.queries import Query
from workbench.engines.cluster.engine import ClusterEngine

MOST = 35


def test_it_has_not_much() -> None:
    classes = [n for n in tree(PACKAGE / "engine" / "base.py").body if isinstance(n, ast.ClassDef)]
    members = [n for c in classes for n in c.body if isinstance(n, ast.FunctionDef | ast.AnnAssign)]
    assert 20 < len(members) <= MOST


def test_a_cluster_answers_each_question_with_what_takes_all_that_it_says() -> None:
    backend: Any = SimpleNamespace(session="", engine="", can=Abilities(), joined=True, blocks=True)
    answers = ClusterEngine(backend).answers
    assert set(answers) == set(Query.__subclasses__())
    for query, answer in answers.items():
        inspect.signature(answer).bind(*query.__struct_fields__)
