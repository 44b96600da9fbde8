"""Notebooks of the course on clusters: one line differs, and all answers are accepted there too."""

from __future__ import annotations

import pytest

from tests.contract.engine.conftest import Opens
from tests.contract.engine.systems import Cluster
from tests.course.answers import typed
from tests.kernel.test_course import EDITIONS, answer, answers_of, code_cells, said
from workbench.course.checks import STATES
from workbench.course.words import ENGLISH

RIGHT = STATES["right"][0].within(ENGLISH)

LOADS = "%load_ext workbench"


@pytest.mark.parametrize("edition", ["01-first-steps", "02-is-it-a-copy", "03-what-you-see"])
def test_a_notebook_runs_but_for_one_line(cluster: Cluster, alone: Opens, edition: str) -> None:
    if (cluster.name, edition) == ("dask", "02-is-it-a-copy"):
        pytest.skip("on Dask processes of a machine share no memory")
    module, path = EDITIONS[edition]
    answers, book = answers_of(module), alone()
    exercise = task = guess = ""
    for cell in code_cells(path):
        tags = cell.metadata.get("tags", ())
        source = cell.source.replace(LOADS, f"{LOADS}\n%workbench start {cluster.start}")
        if "predict" in tags:
            guess = answers.guesses[cell.id.removeprefix("guess-")]
            continue
        if "reveal" in tags:
            book.ok(guess)
            shown = said(book.ok(source))
            # What is otherwise there is said: each machine has its own memory.
            assert "Right" in shown.splitlines()[0] or "runs on a cluster" in shown, shown
            continue
        done = book.run(source, headless=True)
        assert done.error is None or "raises-exception" in tags, done.failure
        if "exercise" in tags:
            exercise, task = cell.id, cell.source
        elif "check" in tags:
            assert not said(done).startswith(f"{exercise}: {RIGHT}"), said(done)
            for wrong in answers.wrong[exercise]:  # the right one may come after some of them
                book.run(typed(wrong.source, task), headless=True)
            solved = answer(book, typed(answers.right[exercise], task))
            assert solved.error is None, solved.failure
            accepted = said(book.run(source, headless=True))
            assert accepted.startswith(f"{exercise}: {RIGHT}"), accepted
