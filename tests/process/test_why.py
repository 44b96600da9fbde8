"""Why an object is still here: from variables, arrays, tasks and objects, in every process."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.scripts import Scripts
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup
from workbench.errors import ObjectFreedError, ObjectLostError


def told(what: Any) -> list[str]:
    """What `why` says, however long it takes to look: the machine may be busy."""
    return [reason.text for reason in wb.why(what, deep=True).reasons]


def test_every_reason_has_its_words_and_its_way_out(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote(name="train")
    def train(data: Any) -> Any:
        stop()
        return len(data)

    ref = wb.put(np.arange(1 << 17), name="data")
    parts = [None, wb.get(ref)[5:]]
    box = wb.put([ref], name="box")
    pickle.dumps(ref)
    wb.pin(ref)
    running = train.remote(ref)
    gate.next()
    # The worker's word of its view may take a moment.
    assert eventually(lambda: any(len(r.viewers) == 2 for r in session.snapshot().objects))
    why = wb.why(ref, deep=True)
    assert why.what == "ndarray int64 (131072,) 'data', 1.05 MB"
    by_text = {reason.text: reason.action for reason in why.reasons}
    here = "in test_every_reason_has_its_words_and_its_way_out(), which runs"
    worker = next(w.number for w in session.snapshot().workers if w.state == "busy")
    for text, action in {
        "named `data`": "`%free data`",
        "inside box": f"let go of that one first: `%why {box.hex()}` says what keeps it",
        f"ref in this process: `ref` {here}": "it ends with that function",
        f"arrays in this process: `parts[1]` {here}": "it ends with that function",
        f"needed by `train` in worker {worker}": "wait for it, or `cancel` it",
        f"arrays in worker {worker}: `data` in train(), which runs": "it ends with that function",
    }.items():
        assert by_text.get(text) == action, "\n".join(by_text)
    (pinned,) = [text for text in by_text if text.startswith("pinned at test_why.py:")]
    assert by_text[pinned] == "`%unpin ref`, `unpin(ref)`"
    (escaped,) = [text for text in by_text if "pickled at test_why.py:" in text]
    assert "`free(ref)`" in by_text[escaped]
    assert [*by_text].index(escaped) < [*by_text].index(f"ref in this process: `ref` {here}")
    assert str(why).count("\n") == 2 * len(why.reasons)
    wb.cancel(running)
    del parts, box


@pytest.mark.fresh_session
def test_what_a_worker_keeps_is_named_and_lets_go(session: Engine) -> None:
    """A module that was loaded before the worker was forked, and a class of its own."""

    @wb.remote
    def keeps(value: Any) -> int:
        import logging

        logging.mine = type("Cache", (), {"kept": {"k": value}})  # type: ignore[attr-defined]
        return 1

    ref = wb.put(np.arange(1 << 17))
    number, id = ref.id, ref.hex()
    wb.get(keeps.remote(ref))
    assert eventually(lambda: any(r.viewers for r in session.snapshot().objects if r.id == number))
    (reason,) = [r for r in wb.why(id, deep=True).reasons if "arrays" in r.text]
    assert re.fullmatch(r"arrays in worker \d+: `logging.mine.kept\['k'\]`", reason.text)
    assert "and another takes its place" in reason.action
    del ref
    exec(reason.code)
    assert eventually(lambda: all(r.id != number for r in session.snapshot().objects))
    assert wb.get(keeps.remote(None)) == 1


def test_an_id_is_enough_also_a_part_of_it(session: Engine) -> None:
    ref, other = wb.put([1]), wb.put([2], name="list")
    for text in (ref.hex(), ref.hex()[-8:], repr(ref)):
        assert session.ask(Lookup(text, or_id=True)) == ref, text
    assert "`ref`" in str(told(repr(ref)))
    with pytest.raises(ObjectLostError, match="2 objects have an id like"):
        wb.why(ref.hex()[:8])
    with pytest.raises(ObjectLostError, match="no object '123456789abcdef0'"):
        wb.why("123456789abcdef0")
    wb.free(ref.hex())
    wb.free("list")
    for freed, use in ((ref, wb.get), (other, lambda ref: wb.get(wb.remote(len).remote(ref)))):
        with pytest.raises(
            ObjectFreedError, match=r"^`\w+`(, an argument .*,)? refers to an object"
        ):
            use(freed)
    with pytest.raises(ObjectLostError, match="no object named 'list'"):
        wb.free("list")
    with pytest.raises(ObjectLostError, match="no object 'list'"):
        wb.why("list")


def test_what_a_function_took_along_is_inside_that(script: Scripts) -> None:
    """What the session itself keeps for it, here and in workers, is no reason of its own."""
    script_ = script("""
        import numpy as np
        wb.init(workers=1)
        ref = wb.put(np.arange(1 << 17), name="taken along")
        array = wb.get(ref)
        uses = wb.remote(lambda: int(array[1]))
        assert wb.get(uses.remote()) == 1
        del ref
        reasons = wb.why("taken along", deep=True).reasons
        assert not [reason for reason in reasons if "just now" in reason.text]
        (inside,) = [reason for reason in reasons if reason.text.startswith("inside function")]
        function = inside.action.split("%why ")[1].partition("`")[0]
        say([reason.text for reason in wb.why(function, deep=True).reasons])
    """)
    assert "`uses`" in script_.line()
