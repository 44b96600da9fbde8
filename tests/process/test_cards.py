"""How refs, actors and sessions show themselves: in every state, briefly, and without a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import workbench as wb
from tests.leaks import eventually
from tests.process.gates import Gate
from tests.process.processes import Processes, stopped
from workbench.engine.base import Engine
from workbench.serialization.codec import MOST_PEEKED

NASTY = "<script>alert(1)</script>"


def shown(thing: Any) -> dict[str, Any]:
    """As a notebook is given it."""
    return dict(DisplayFormatter().format(thing)[0])


def text(thing: Any) -> str:
    """As a terminal shows it, after a look at what a notebook would."""
    bundle = shown(thing)
    assert set(bundle) == {"text/plain", "text/html"}
    page = bundle["text/html"]
    assert "<script" not in page
    assert "<style" not in page
    assert page.count("<div") == page.count("</div>")
    return str(bundle["text/plain"])


def fact(thing: Any, label: str) -> str:
    """What is said of it under that label."""
    (found,) = re.findall(rf"^ *{label} +(.*)", text(thing), re.MULTILINE)
    return str(found).strip()


def state(thing: Any) -> str:
    return text(thing).splitlines()[0].rpartition(": ")[2]


def test_a_ref_says_what_it_refers_to(session: Engine) -> None:
    array = np.arange(1 << 17).reshape(512, 256)
    ref = wb.put(array, name="data")
    wb.pin(ref)
    assert text(ref).splitlines()[0] == f"ObjectRef {ref.hex()}: ready"
    assert fact(ref, "name") == "data"
    assert fact(ref, "type") == "ndarray int64 (512, 256)"
    assert fact(ref, "size") == "1.05 MB, in shared memory"
    kept = fact(ref, "why it is here")
    assert kept.startswith("named data, pinned at test_cards.py:")
    assert kept.endswith(", ref in this process")
    assert fact(ref, "put at").startswith("test_cards.py:")
    assert "[     0      1      2 ...    253    254    255]" in text(ref)
    held = wb.get(ref)
    assert fact(ref, "why it is here").endswith("ref in this process, arrays in this process")
    assert repr(ref) == f"ObjectRef({ref.hex()}, ready)"
    del held


def test_previews_of_what_was_put_and_of_what_a_task_returned(session: Engine) -> None:
    frame = wb.put(pd.DataFrame({"n": range(50_000), "word": ["<i>"] * 50_000}))
    assert "49995 more rows" in text(frame)
    assert "&lt;i&gt;" in shown(frame)["text/html"]
    result = wb.remote(lambda: {"loss": 0.5}).remote()
    wb.wait([result])
    assert fact(result, "type") == "dict (1)"
    assert text(result).endswith("{'loss': 0.5}")
    kept = wb.put([frame])
    wb.get(wb.remote(lambda refs: wb.free(refs)).remote([frame]))
    assert state(frame) == "freed", "by another process"
    del kept


def test_every_state_has_its_word(session: Engine, gate: Gate) -> None:
    stop = gate.stop

    @wb.remote(name=f"train {NASTY}")
    def train(x: Any) -> Any:
        return stop()

    running = [train.remote(n) for n in range(2)]
    pids = {gate.next().pid, gate.next().pid}
    queued, waiting = train.remote(2), train.remote(running[0])
    assert fact(queued, "task") == f"train {NASTY}, which has not begun"
    assert fact(waiting, "task") == f"train {NASTY}, until its arguments are there"
    numbers = {str(worker.number) for worker in wb.snapshot().workers if worker.pid in pids}
    tasks = {fact(ref, "task") for ref in running}
    assert tasks == {f"train {NASTY} in worker {number}" for number in numbers}
    words = [state(ref) for ref in (queued, waiting, *running)]
    assert words == ["queued", "waiting", "running", "running"]
    failed = wb.remote(lambda: {}["missing"]).options(num_cpus=0).remote()
    wb.cancel(queued)
    wb.wait([queued, failed], num_returns=2)
    assert (state(queued), state(failed)) == ("stopped", "failed")
    assert fact(failed, "error") == "KeyError: 'missing'"
    wb.free(failed)
    assert state(failed) == "freed"
    wb.shutdown()
    for ref in (*running, queued, failed):
        assert state(ref) == "session over"
        assert fact(ref, "why") == "The session was shut down."


def test_a_look_leaves_no_pin_behind(session: Engine) -> None:
    inner = wb.put(1)
    frame = pd.DataFrame({"n": np.arange(50_000), "x": 1.5})
    refs = [wb.put(frame), wb.put({"array": np.arange(100_000), "ref": inner})]
    for ref in refs:
        text(ref)
    records = {record.id: record for record in session.snapshot().objects}
    for ref in refs:
        assert not records[ref.id].viewers  # gone with the look, not with the next collection
        assert records[ref.id].load_seconds == 0  # nor is it counted as the first reading
    del ref, refs, inner
    assert eventually(lambda: not session.snapshot().objects)


def test_a_large_pickle_is_not_read(session: Engine) -> None:
    class Heavy:
        def __reduce__(self) -> Any:
            return load, ("x" * MOST_PEEKED,)

    def load(x: str) -> None:
        raise AssertionError("it was read")

    ref = wb.put(Heavy())
    assert re.search(r"no preview: 6\d\.\d kB of it are pickled$", text(ref))
    light = wb.put([np.arange(1_000_000), "a list with an array"])
    assert text(light).endswith("[array(int64, (1000000,)), 'a list with an array']")


class Unreadable:
    def __reduce__(self) -> Any:
        return int, ("not a number",)


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError

    @property
    def shape(self) -> Any:
        raise RuntimeError


class Markup:
    def __repr__(self) -> str:
        return NASTY

    def __str__(self) -> str:
        return NASTY

    _repr_html_ = __html__ = __str__


def test_whatever_a_class_does(session: Engine) -> None:
    for kind in (Unreadable, Unspeakable, Markup):
        for value in (kind(), [kind()], pd.DataFrame({NASTY: [kind()]})):
            ref = wb.put(value, name=NASTY)
            assert state(ref) == "ready"
    for thing in (ref, wb.objects(), wb.why(ref), session):
        assert NASTY not in shown(thing)["text/html"]
    session.name(None, NASTY)


def test_what_lies_on_disk_stays_there(tmp_path: Any) -> None:
    session = wb.init(workers=0, memory="64MB", spill_dir=tmp_path)
    ref = wb.put(np.arange(100_000))
    wb.spill(ref)
    assert fact(ref, "size") == "803 kB, on disk"
    assert "no preview: it is on disk" in text(ref)
    assert session.snapshot().spilled


@wb.remote
class Counter:
    def add(self, n: int) -> int:
        return n

    def read(self) -> Iterator[int]:
        yield 1

    def _private(self) -> None:
        pass


def test_actors_and_sessions_say_how_they_do(session: Any, gate: Gate) -> None:
    wb.remote(gate.stop).remote()
    gate.next()
    features = wb.put(np.arange(1000), name="features")
    counter = Counter.options(name=NASTY, max_restarts=2).remote()
    wb.get(counter.add.remote(1))
    assert text(counter).splitlines()[0] == "ActorHandle Counter: alive"
    facts = {label: fact(counter, label) for label in ("name", "methods", "restarts left", "calls")}
    assert [*facts.values()] == [NASTY, "add, read", "2", "none waiting"]
    assert state(session) == "running"
    assert "1 task running, 0 queued" in fact(session, "workers")
    assert " of 64 MB in " in fact(session, "store")
    assert fact(session, "actors") == f"Counter '{NASTY}'"
    assert "features" in {line.split()[0] for line in text(session).splitlines()[1:]}
    assert "actor:" not in text(session)
    assert repr(session) == f"Session({session.session!r}, 2 workers)"
    wb.kill(counter)
    assert eventually(lambda: state(counter) == "dead")
    wb.shutdown()
    assert (state(counter), state(session)) == ("session over", "over")
    assert repr(session).endswith("over)")
    del features


def test_who_hangs_is_not_waited_for(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would come: with a wait, this test would end by its timeout."""
    monkeypatch.setenv("WORKBENCH_GLANCE", "0.5")
    session = wb.init(workers=1, memory="64MB")
    ref, counter = wb.put(1), Counter.remote()
    wb.get(counter.add.remote(1))
    with stopped(processes.server()):
        assert [state(thing) for thing in (ref, counter, session)] == ["unknown", "unknown", "busy"]
        assert "doesn't answer" in fact(ref, "why")
    answers = ["ready", "alive", "running"]
    assert eventually(lambda: [state(thing) for thing in (ref, counter, session)] == answers)
