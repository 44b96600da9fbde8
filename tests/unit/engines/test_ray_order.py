"""What a process says to a session's supervisor on Ray counts in the order in which it was said."""

from __future__ import annotations

import asyncio
import random

import pytest

from workbench.engines.cluster import outputs
from workbench.engines.ray import order
from workbench.engines.ray.order import Sender, SequenceNumber, Turns


async def say(turns: Turns, said: SequenceNumber, heard: list[int]) -> None:
    await turns.turn(said)
    heard.append(said.number)
    turns.heard(said)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_said_is_heard_in_order(seed: int) -> None:
    """However the calls come; of other processes none waits."""
    sender, other = Sender(), Sender()

    async def main() -> list[int]:
        turns, heard = Turns(), list[int]()
        calls = [say(turns, sender.next(), heard) for _ in range(30)]
        random.Random(seed).shuffle(calls)
        others = list[int]()
        await asyncio.gather(*calls, say(turns, other.next(), others))
        assert others == [1]
        return heard

    assert asyncio.run(main()) == list(range(1, 31))


def test_who_asks_is_answered_after_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "LOST", 3600.0)
    sender = Sender()
    said, asked = sender.next(), sender.last()

    async def main() -> list[int]:
        turns, heard = Turns(), list[int]()

        async def ask() -> None:
            await turns.after(asked)
            heard.append(0)

        await asyncio.gather(ask(), say(turns, said, heard))
        return heard

    assert asyncio.run(main()) == [1, 0]


def test_what_is_lost_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that never comes, because of the network: those after it go on."""
    monkeypatch.setattr(order, "LOST", 0.01)
    sender = Sender()
    sender.next()

    async def main() -> list[int]:
        turns, heard = Turns(), list[int]()
        await say(turns, sender.next(), heard)
        await turns.after(sender.last())
        return heard

    assert asyncio.run(main()) == [2]


def test_one_lost_message_does_not_keep_the_others_from_their_cell() -> None:
    assert 2 * order.LOST <= outputs.PATIENCE
