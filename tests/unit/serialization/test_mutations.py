"""What is changed of values elsewhere, found there and put back here: the same objects as if it had
been changed here."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.patience import THOROUGH
from tests.unit.serialization.samples import Holder
from workbench.serialization.codec import Where
from workbench.serialization.merging import ConflictError, merged
from workbench.serialization.mutations import Difference, MutationTracker
from workbench.serialization.object_state import ReducedState, can_restore, object_state_of, restore
from workbench.serialization.packing import OtherSide, pack

HERE = Where()
PARIS = ZoneInfo("Europe/Paris")


class Slotted:
    __slots__ = ("a", "b")
    a: Any
    b: Any


class Careful:
    """Leaves out what doesn't travel."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.lock = object()

    def __getstate__(self) -> dict[str, Any]:
        return {"items": list(self.items)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.items = state["items"]
        self.lock = object()


class Elsewhere:
    """Another process, as far as values know."""

    def __init__(self, seconds: float = 60, /, **values: Any) -> None:
        self.values = values
        packed, memo = pack(values, {}, [], lambda: values)
        self._own = dict(memo.copy().values())
        self.there, there = packed.open(HERE)
        self._tracker = MutationTracker(self.there, there, {}, seconds)

    def difference(self) -> Difference:
        return self._tracker.difference(60)

    def bring(self) -> dict[str, Any]:
        """Make the own objects what those there are; returns what has to be bound anew."""
        found = self.difference()
        value = found.objects, found.variables
        packed, _ = pack(value, {}, [], dict, there=OtherSide(found.numbers))
        (states, anew), _ = packed.open(HERE, self._own.__getitem__)
        for number, new in states.items():
            own = self._own[number]
            assert can_restore(own, new)
            old = object_state_of(own, {}) if new.kind != "bindings" else ReducedState(new.kind, {})
            restore(own, new, old)
        return anew  # type: ignore[no-any-return]


class Opaque:
    """Pickle makes it anew, and knows no way to change one."""

    def __init__(self, n: Any) -> None:
        self.n = n

    def __reduce__(self) -> Any:
        return Opaque, (self.n,)


def test_what_has_to_be_made_anew_is_the_same_for_all_who_have_it() -> None:
    opaque = Opaque(1)
    holder, lst, untouched = Holder(part=opaque), [opaque, (opaque,)], [1]
    values = {"holder": holder, "lst": lst, "opaque": opaque, "pair": (opaque, untouched)}
    elsewhere = Elsewhere(**values)
    elsewhere.there["opaque"].n = 2
    anew = elsewhere.bring()
    made = anew["opaque"]
    assert (made.n, opaque.n) == (2, 1)
    assert holder.part is lst[0] is lst[1][0] is anew["pair"][0] is made
    assert anew.keys() == {"opaque", "pair"}
    assert anew["pair"][1] is untouched


def test_what_two_have_in_common_may_be_two_that_are_equal() -> None:
    text = "of both"
    elsewhere = Elsewhere(one=Opaque(text), two=Opaque(text))
    elsewhere.there["two"].n = "".join(list(text))
    assert elsewhere.difference().names == ()
    elsewhere.there["two"].n = "of one"
    assert elsewhere.difference().names == ("two",)


def test_what_takes_too_long_is_not_known() -> None:
    elsewhere = Elsewhere(-1, lst=[Opaque(n) for n in range(100)], n=[1])
    elsewhere.there["lst"][0].n = 5
    found = elsewhere.difference()
    assert (found.names, found.unknown) == ((), ("lst", "n"))


class Slow:
    def __reduce__(self) -> Any:
        raise AssertionError("it was pickled")


def test_what_is_known_to_be_slow_is_not_pickled() -> None:
    there: dict[str, Any]
    there = {"obj": Slow(), "inside": [Slow()], "texts": ["a"], "thing": Holder(x=Slow())}
    tracker = MutationTracker(there, dict(enumerate(there.values())), {}, 60, slow=range(4))
    there["texts"].append("b")
    there["obj"].n = 1
    found = tracker.difference(60)
    assert (found.names, found.unknown) == (("texts",), ("obj", "inside", "thing"))


def test_what_is_equal_may_be_another() -> None:
    morning = datetime(2020, 1, 1, 0, tzinfo=UTC)
    before = [0.0, 1, 1, Decimal("1.0"), morning, np.float64(0.0), (1, 0.0)]
    now = [-0.0, True, 1.0, Decimal("1.00"), morning.astimezone(PARIS), -np.float64(0.0), (1, -0.0)]
    elsewhere = Elsewhere(**{f"x{n}": [value] for n, value in enumerate(before)})
    for n, value in enumerate(now):
        elsewhere.there[f"x{n}"][0] = value
    assert elsewhere.difference().names == (*elsewhere.values,)


def graph(draw: random.Random) -> list[Any]:
    """Objects of many kinds, some of which have others of them, also in circles."""
    objects: list[Any] = [
        [1, 2], {"a": 1}, {1, "b"}, bytearray(b"abc"), deque([1]), Counter("aab"),
        OrderedDict(a=1), defaultdict(list), Holder(x=1), Slotted(), np.arange(3.0),
        np.array([1, "a", None], object), Careful(), [*range(200)], random.Random(1),
    ]  # fmt: skip
    for _ in range(20):
        edit(draw, objects)
    return objects


def edit(draw: random.Random, objects: list[Any]) -> None:
    """Change one of them in place; what it gets is another one, a new one, or a number."""
    target = draw.choice(objects)
    value = draw.choice(
        [draw.choice(objects), draw.randrange(5), "text", (draw.choice(objects),), [7]]
    )
    match target:
        case list():
            draw.choice([
                lambda: target.append(value), lambda: target.insert(0, value), target.reverse,
                lambda: target.__delitem__(slice(0, 1)), target.clear,
            ])()  # fmt: skip
        case OrderedDict():
            target[draw.randrange(3)] = value
            target.move_to_end(next(iter(target)))
        case Counter():
            target[draw.randrange(3)] += 1
        case dict():
            target[draw.randrange(3)] = value
            if draw.random() < 0.3:
                target.popitem()
        case set():
            target.symmetric_difference_update({draw.randrange(5)})
        case bytearray():
            target.append(draw.randrange(200))
        case deque():
            target.rotate(1)
            target.append(value)
        case Holder():
            if draw.random() < 0.3:
                vars(target).clear()
            vars(target)[draw.choice("xyz")] = value
        case Slotted():
            draw.choice([Slotted.a, Slotted.b]).__set__(target, value)
        case Careful():
            target.items.append(draw.randrange(5))
        case random.Random():
            target.random()
        case np.ndarray():
            target[draw.randrange(3)] = value if target.dtype == object else draw.randrange(5)


def picture(objects: list[Any]) -> list[Any]:
    """What they are: which has which, by number."""
    numbers = {id(each): number for number, each in enumerate(objects)}

    def part(value: Any) -> Any:
        if id(value) in numbers:
            return f"#{numbers[id(value)]}"
        if isinstance(value, tuple | list):
            return [type(value).__name__, *map(part, value)]
        return value

    def whole(value: Any) -> Any:
        match value:
            case dict():
                return [(part(key), part(each)) for key, each in value.items()]
            case set():
                return sorted(map(repr, value))
            case list() | deque():
                return [*map(part, value)]
            case np.ndarray():
                return [*map(part, value.tolist() if value.dtype != object else value)]
            case Slotted():
                return [part(getattr(value, name, None)) for name in "ab"]
            case Careful():
                return value.items
            case Holder():
                return {name: part(each) for name, each in vars(value).items()}
        return value.getstate() if isinstance(value, random.Random) else bytes(value)

    return [whole(value) for value in objects]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2000 if THOROUGH else 100))
def test_random_edits_there_are_as_if_they_had_been_made_here(seed: int) -> None:
    draw = random.Random(seed)
    objects = graph(draw)
    here = graph(random.Random(seed))
    assert picture(here) == picture(objects)
    draw.shuffle(order := [*range(len(objects))])
    elsewhere = Elsewhere(objects=objects, some=[objects[n] for n in order[:3]])
    edits, same = random.Random(seed + 1), random.Random(seed + 1)
    for _ in range(draw.randrange(6)):
        edit(edits, elsewhere.there["objects"])
        edit(same, here)
    before = [id(each) for each in objects]
    changed = picture(here) != picture(objects)
    assert not elsewhere.bring()
    assert picture(objects) == picture(here)
    assert [id(each) for each in elsewhere.values["objects"]] == before
    assert not changed or elsewhere.values["some"] == [objects[n] for n in order[:3]]


def test_what_is_not_changed_is_not_found_changed() -> None:
    for seed in range(20):
        elsewhere = Elsewhere(objects=graph(random.Random(seed)))
        picture(elsewhere.there["objects"])
        found = elsewhere.difference()
        assert found.names == found.unknown == found.unsteady == ()
        assert not found.objects


@pytest.mark.parametrize(
    ("before", "ours", "theirs", "becomes"),
    [
        ([1], [1, 2], [1, 2], [1, 2, 2]),
        ([1, 2], [2, 1], [1, 2, 3], [2, 1, 3]),
        ([1], [1, 3], [0], [0, 3]),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "c": 3}, {"a": 2, "c": 3}),
        ({"a": 1}, {}, {"a": 1, "b": 2}, {"b": 2}),
        ({1, 2}, {1, 3}, {2, 4}, {3, 4}),
    ],
)
def test_no_change_is_lost(before: Any, ours: Any, theirs: Any, becomes: Any) -> None:
    states = [object_state_of(each, {}) for each in (before, ours, theirs)]
    parts = merged(*states).parts
    assert (set(parts) if isinstance(becomes, set) else parts) == becomes


@pytest.mark.parametrize(
    ("before", "ours", "theirs"),
    [([1, 2], [2], [1]), ({"a": 1}, {"a": 2}, {"a": 3}), ({"a": 1}, {}, {"a": 3})],
)
def test_one_part_that_both_changed_is_refused(before: Any, ours: Any, theirs: Any) -> None:
    with pytest.raises(ConflictError):
        merged(*[object_state_of(each, {}) for each in (before, ours, theirs)])
