"""Which arrays a value holds, and which variable was written to where an error was raised."""

from __future__ import annotations

import textwrap
from typing import Any, cast

import pytest

from workbench.error_notes.readonly import _written_at, arrays_in, named_at
from workbench.ref import ObjectRef


def test_a_ref_holds_no_array() -> None:
    """Its session may: whoever has any ref would have all of that session's arrays."""
    np = pytest.importorskip("numpy")
    array = np.zeros(3)
    engine = cast("Any", {"of another object": array})
    assert list(arrays_in([ObjectRef(1, engine)])) == []
    found = list(arrays_in([ObjectRef(1, engine), array]))
    assert len(found) == 1
    assert found[0] is array


@pytest.mark.parametrize(
    ("code", "written"),
    [
        ("x[0] = y", ["x"]),
        ("x[0] = y[0]", ["x"]),
        ("z = y; x[0] = z", ["x"]),
        ("for z in [y]:\n    x[0] = z", ["x"]),
        ("z = x\nz[0] = y", ["z"]),
        ("x += y", ["x", "y"]),
        ("print(y, z, x.sort())", ["x"]),
        ("np.add(y, z, out=x)", ["x", "np", "y", "z", "x"]),
        ("np.add(y, z, x)", ["np", "y", "z", "x"]),
        ("with np.errstate() as z:\n    x[0] = y", ["x"]),
        ("y[0], x[0] = 1, 2", ["x"]),
    ],
)
def test_what_was_written_to(code: str, written: list[str]) -> None:
    """Also where one bytecode stands for two, as from Python 3.13 on."""
    np = pytest.importorskip("numpy")
    x, y, z = np.arange(3.0), np.arange(3), np.arange(3)
    x.flags.writeable = False
    variables: dict[str, Any] = {"np": np}
    exec(f"def run(x, y, z):\n{textwrap.indent(code, '    ')}", variables)
    with pytest.raises(ValueError, match="read-only") as error:
        variables["run"](x, y, z)
    assert error.tb is not None
    tb = error.tb.tb_next
    assert tb is not None
    found = [name for name, _ in _written_at(tb.tb_frame, tb.tb_lasti)]
    assert found == written
    assert {*written} <= {name for name, _ in named_at(tb.tb_frame, tb.tb_lineno)}
