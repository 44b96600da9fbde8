"""What the docs say that each engine can't: what it says itself, in three sentences each."""

from __future__ import annotations

import re

import pytest

from tests.contract.engine.table import PAGE, abilities, of_engines, page_with

CAN = abilities()


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text()
    message = "the page isn't what the engines say: python -m tests.contract.engine.table"
    assert page_with(of_engines(), page) == page, message


@pytest.mark.parametrize("engine", CAN)
def test_what_is_lacking_is_said_in_three_sentences(engine: str) -> None:
    for ability, lack in CAN[engine].lacking().items():
        sentences = re.split(r"(?<=\.) ", lack)
        assert len(sentences) >= 3, ability
        for sentence in sentences:
            assert sentence[:1].isupper() or sentence[:1] == "`", sentence
            assert sentence.endswith("."), sentence
    assert not CAN["local"].lacking()
