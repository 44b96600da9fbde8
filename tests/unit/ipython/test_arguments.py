"""What stands on a magic's line, before IPython's parser splits it into words."""

from __future__ import annotations

import pytest

from workbench.ipython.arguments import in_one_word


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("--map hour=range(7, 18)", "--map 'hour=range(7, 18)'"),
        ("-w --map x=f((1, 2), [3, 4]) -o a b", "-w --map 'x=f((1, 2), [3, 4])' -o a b"),
        ("--map=x=[1, 2]", "--map='x=[1, 2]'"),
        ("--map x=d['a b', 1] -w", "--map \"x=d['a b', 1]\" -w"),
        ("--map 'range(7, 9)' -w", "--map 'range(7, 9)' -w"),
        ("--map items -w", "--map items -w"),
        ("--map range(3) -o a b", "--map range(3) -o a b"),
        ("--name map -w", "--name map -w"),
    ],
)
def test_an_expression_with_spaces_in_its_brackets_is_one_word(line: str, becomes: str) -> None:
    assert in_one_word(line, "--map") == becomes
