"""Classes that travel by value, as those of notebooks do, are in another process what they were."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from tests.tables import tables
from workbench.serialization import codec

CELLS = dict(tables(__file__)[""])


def notebook() -> dict[str, Any]:
    """The names of a notebook that has run the first of the cells."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS["notebook"], names)
    return names


def elsewhere(value: Any, does: str) -> Any:
    """``made``, after a program in another process did something with ``value``."""
    program = "import sys\nfrom workbench.serialization import codec\n" + (
        f"value = codec.deserialize_inline(sys.stdin.buffer.read())\n{does}\n"
        "sys.stdout.buffer.write(codec.serialize(made, {}).inline())"
    )
    sent = codec.serialize(value, {}).inline()
    done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True)
    assert not done.returncode, done.stderr.decode()
    return codec.deserialize_inline(done.stdout)


def test_classes_with_slots_have_them_in_other_processes_and_instances_come_back() -> None:
    things = notebook()["test"]()
    back, told = elsewhere(things, CELLS["tells"])
    for thing, (name, has_dict, has_weakref, slots) in zip(things, told, strict=True):
        assert name == type(thing).__name__
        assert has_dict == hasattr(thing, "__dict__"), name
        assert has_weakref == hasattr(thing, "__weakref__"), name
        assert slots == type(thing).__slots__, name
    for thing, again in zip(things, back, strict=True):
        assert type(again) is type(thing)
        slots = {n: getattr(thing, n) for n in dir(thing) if len(n) == 1}
        assert {n: getattr(again, n) for n in slots} == slots
        assert getattr(again, "__dict__", None) == getattr(thing, "__dict__", None)
    assert back[2].hidden() == 2
    assert back[-1].second == 8


def test_what_stands_in_a_slots_place_travels_too() -> None:
    program = "read = value(7); made = read.g, hasattr(read, '__dict__')"
    assert elsewhere(notebook()["Read"], program) == (7, False)


def test_an_enum_that_is_opened_in_an_earlier_state_has_its_members() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("import enum\nclass Shade(enum.Enum):\n    DARK = 1", names)
    program = (
        "from workbench.serialization.class_states import earlier_states\n"
        "with earlier_states():\n    made = list(codec.deserialize_inline(value))"
    )
    sent = codec.serialize(names["Shade"], {}).inline()
    assert elsewhere(sent, program) == [names["Shade"].DARK]


def test_members_of_an_enum_have_their_attributes_and_other_names() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS["planets"], names)
    assert elsewhere(names["Planet"].EARTH, "made = value.mass, type(value).GLOBE is value") == (
        [1],
        True,
    )
