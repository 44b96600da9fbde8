"""What only Dask has: a scheduler that may go away. With clusters of a test's own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import NODES, Cluster
from tests.kernel.gates import Gate
from tests.leaks import eventually


@pytest.fixture
def dask(cluster: Cluster) -> Cluster:
    if cluster.name != "dask":
        pytest.skip("of Dask alone")
    return cluster


@pytest.fixture
def scheduler(dask: Cluster, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a scheduler without workers, and its process."""
    place = tmp_path / "scheduler.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0",
         "--no-dashboard", "--scheduler-file", str(place)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(os.environ), start_new_session=True,
    )  # fmt: skip
    try:
        assert eventually(lambda: place.exists() and place.stat().st_size)
        import json

        yield json.loads(place.read_text())["address"], process
    finally:
        psutil.Process(process.pid).kill()
        process.wait()


def test_who_waits_is_told_that_the_scheduler_has_died(
    another: Callable[..., Book], scheduler: tuple[str, subprocess.Popen[bytes]]
) -> None:
    address, process = scheduler
    book = another()
    book.ok("%load_ext workbench")
    book.ok(f"%workbench start --engine dask --address {address}")
    book.ok("""
        import workbench as wb
        ref = wb.remote(len).remote("abc")
        items = wb.remote(num_returns="streaming")(lambda: iter("ab")).remote()
        future = ref.future()
    """)
    cell = book.start("print('waits', flush=True)\nwb.get(ref)")
    book.until(cell.text)
    process.kill()
    book.until(lambda: cell.idle)
    assert "SessionError" in cell.failure
    assert "scheduler was lost" in cell.failure
    book.fails("future.result(60)", "SessionError", "scheduler was lost")
    book.fails("wb.get(next(items))", "SessionError")
    book.fails("wb.put(1)", "SessionError", "scheduler was lost")


def test_a_stop_that_comes_just_after_the_end_changes_nothing() -> None:
    """On the worker, whose result is on its way; and at the scheduler, which has it by then."""
    pytest.importorskip("distributed")
    from workbench.engines.dask.actor_places import ActorPlaces
    from workbench.engines.dask.placement import Placement
    from workbench.engines.dask.task_fates import TaskFates
    from workbench.engines.dask.worker_plugin import WorkbenchWorker, WorkerSide

    sent = list[dict[str, Any]]()
    worker = SimpleNamespace(
        scheduler=SimpleNamespace(address="tcp://x"), state=SimpleNamespace(nthreads=0),
        batched_send=sent.append,
    )  # fmt: skip
    plugin = WorkbenchWorker()
    side = plugin.side = WorkerSide(worker, 1)
    try:
        side.begun.add("k-7")
        plugin.transition("k-7", "executing", "long-running")
        side.stop("k-7", "s", 7, False, 0, 0, 0)
        assert sent == []
        side.stop("k-8", "s", 8, False, 0, 0, 0)
        assert [message["op"] for message in sent] == ["workbench_unbegun"]
        plugin.transition("k-7", "executing", "memory")
        side.stop("k-7", "s", 7, False, 0, 0, 0)
        assert [message["task"] for message in sent] == [8, 7]
    finally:
        side.close()
    told = list[Any]()
    scheduler = SimpleNamespace(tasks={"k-7": SimpleNamespace(state="memory", who_wants=[])})
    session: Any = SimpleNamespace(
        actors={}, tell_all=told.append, keeper=SimpleNamespace(ended=told.append)
    )
    sessions = {"s": session}
    places = ActorPlaces(scheduler, sessions, {})
    ours = TaskFates(scheduler, sessions, places, Placement(scheduler))
    ours.unbegun("k-7", "s", 7)
    assert told == []
    scheduler.tasks["k-7"].state = "processing"
    ours.unbegun("k-7", "s", 7)
    assert len(told) == 2


def test_running_is_what_is_at_work_and_ours(book: Book, dask: Cluster, gate: Gate) -> None:
    slots = dask.workers
    book.ok(f"""
        from workbench import context
        from distributed import Client
        def wait(): {gate.wait}
        tasks = [wb.remote(wait).remote() for _ in range({slots} + 3)]
        parts = context.get().backend.parts
        other = Client({dask.address!r}, set_as_default=False)
        foreign = [other.submit(lambda n: n, n, pure=False) for n in range(20)]
        for _ in range(10_000):
            seen = parts()
            if (seen.running, seen.queued) == ({slots}, 3): break
            pause(0.01)
    """)
    assert book.value("(seen.running, seen.queued)") == f"({slots}, 3)"
    # A worker is a process that runs tasks, wherever they are counted.
    assert book.value("context.get().workers") == str(slots)
    assert f"{slots} workers ({slots} busy)" in book.ok("%workbench").text()
    assert book.value("{task for worker in seen.workers for task in worker.tasks}") == "{'wait'}"
    assert book.value("len({worker.pid for worker in seen.workers})") == str(slots)
    gate.open(slots + 3)
    book.ok("wb.get(tasks)\ndel foreign\nother.close()")


@pytest.mark.parametrize("tries", [0, 1])
def test_results_that_are_lost_are_made_again_if_that_is_allowed(
    book: Book, dask: Cluster, gate: Gate, tmp_path: Path, tries: int
) -> None:
    """Large ones: small ones are in the notebook by then. Files say how often something ran."""
    marks = tmp_path / "marks"
    marks.mkdir()
    count, lost = book.system.workers, book.system.workers // NODES
    book.ok(f"""
        def make(n):
            import secrets
            open({str(marks)!r} + f"/{{n}}-{{secrets.token_hex(4)}}", "w").close()
            {gate.wait}
            return np.full(500_000, n)
        refs = [wb.remote(max_retries={tries})(make).remote(n) for n in range({count})]
    """)
    assert eventually(lambda: len(os.listdir(marks)) == count)
    gate.open(count)
    book.ok("wb.wait(refs, num_returns=len(refs))")
    gate.open(count)  # those that run again needn't wait
    dask.ask("kill_node")
    book.ok("""
        def found(n):
            try: return int(wb.get(refs[n], timeout=60)[0]) == n
            except wb.exceptions.ObjectLostError as error: return str(error)
        values = [found(n) for n in range(len(refs))]
    """)
    values = ast.literal_eval(book.value("values"))
    assert values.count(True) == (count if tries else count - lost), values
    assert all(each is True or "`max_retries` doesn't allow" in each for each in values)
    assert len(os.listdir(marks)) == count + (lost if tries else 0)


def test_what_restarts_do_not_cover_is_said_where_they_are_asked_for(
    book: Book, dask: Cluster
) -> None:
    book.ok("""
        @wb.remote
        class Empty: pass
    """)
    told = book.ok("kept = Empty.options(max_restarts=1).remote()").text("stderr")
    assert book.lacks["elsewhere"] in " ".join(told.split())
    told = book.ok("wide = Empty.options(num_cpus=1).remote()").text("stderr")
    assert book.lacks["needs"] in " ".join(told.split())
    assert book.ok("usual = Empty.remote()").text("stderr") == ""


OWN_CLUSTER = """
import os
import workbench as wb

def nested():
    return wb.get(wb.remote(lambda: os.environ.get("COLOR")).remote())

def shown():
    return wb.get(wb.remote(nested).remote(), timeout=60)
"""


def told(code: str, tmp_path: Path, **variables: str) -> str:
    """What a script prints."""
    place = tmp_path / "script.py"
    body = textwrap.indent(textwrap.dedent(code), "    ")
    place.write_text(f"{OWN_CLUSTER}\nif __name__ == '__main__':\n{body}")
    environment = {**os.environ, "WORKBENCH_RUNTIME_DIR": str(tmp_path), **variables}
    done = subprocess.run(
        [sys.executable, str(place)], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = {
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
    "OMP_NUM_THREADS": "1",
}


def test_variables_reach_the_workers_of_a_cluster_that_the_session_starts(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    code = """
        with wb.init(engine="dask", runtime_env={"env_vars": {"COLOR": "green"}}):
            print(shown())
    """
    assert told(code, tmp_path, **SMALL) == "green\n"


def test_tasks_of_an_encrypted_cluster_reach_its_scheduler(tmp_path: Path) -> None:
    """With the worker's own certificates, which lie in its memory."""
    pytest.importorskip("distributed")
    pytest.importorskip("cryptography")
    code = """
        import warnings
        from distributed import Client, LocalCluster
        from distributed.security import Security
        security = Security.temporary()
        with LocalCluster(1, threads_per_worker=2, security=security, dashboard_address=None) as c:
            with Client(c, set_as_default=False) as client:
                assert c.scheduler_address.startswith("tls://")
                with warnings.catch_warnings(record=True) as said, wb.init(
                    client, runtime_env={"env_vars": {"COLOR": "red"}}
                ):
                    print(shown())
                assert "doesn't reach" in str(said[0].message)
    """
    assert told(code, tmp_path, **SMALL) == "None\n"
