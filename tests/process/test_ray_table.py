"""``docs/coming-from-ray.md`` says what is true: each of its rows is called."""

from __future__ import annotations

import pytest

from tests.process import ray_rows, ray_table
from tests.process.ray_rows import REFUSED
from workbench import options, ray_api


@pytest.mark.extended
def test_the_page_says_what_each_name_and_option_does() -> None:
    assert ray_table.page() == ray_table.PAGE.read_text(), (
        "the page isn't what the calls show: python -m tests.process.ray_table"
    )


def test_a_row_that_is_wrong_fails() -> None:
    for verdict, result in ((ray_rows.SAME, False), (ray_rows.IGNORED, False), (REFUSED, 1)):
        with pytest.raises(AssertionError):
            ray_table.called(ray_rows.Row("x", verdict, lambda result=result: result))


def test_every_option_has_a_row() -> None:
    """Ours and those that are refused; but for what Ray doesn't have."""
    own = {"timeout", "max_ahead"}
    known = {*options.names_in(options.TaskOptions), *options.names_in(options.ActorOptions)}
    for names, sections in (
        (known - own | ray_api.OF_TASKS.keys(), (ray_rows.OF_TASKS, ray_rows.OF_ACTORS)),
        (ray_api.OF_INIT.keys(), (ray_rows.OF_INIT,)),
    ):
        text = " ".join(row.name for rows in sections for row in rows)
        assert not {name for name in names if f"{name}=" not in text}
