"""What only Dask has: a scheduler that may go away, workers that come later, other people's work.
Some with clusters of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.contract.engine.conftest import Book
from tests.contract.engine.systems import Cluster
from tests.kernel.gates import Gate
from tests.leaks import eventually


@pytest.fixture
def dask(cluster: Cluster) -> Cluster:
    if cluster.name != "dask":
        pytest.skip("of Dask alone")
    return cluster


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(dask: Cluster) -> Iterator[Start]:
    """Starts a scheduler or a worker, which ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--host", "127.0.0.1", "--no-dashboard"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ))  # fmt: skip
        return started[-1]

    yield run
    for process in started:
        for each in (*psutil.Process(process.pid).children(recursive=True), process):
            each.kill()
        process.wait()


@pytest.fixture
def scheduler(start: Start, tmp_path: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """The address of a scheduler without workers, and its process."""
    place = tmp_path / "scheduler.json"
    process = start("scheduler", "--port", "0", "--scheduler-file", str(place))
    assert eventually(lambda: place.exists() and place.stat().st_size)
    import json

    return json.loads(place.read_text())["address"], process


def test_a_cluster_without_workers_is_waited_for_and_its_end_is_told(
    another: Callable[..., Book], start: Start, scheduler: tuple[str, subprocess.Popen[bytes]]
) -> None:
    address, process = scheduler
    book = another()
    book.ok("%load_ext workbench")
    joining = book.start(f"%workbench start --engine dask --address {address}")
    book.until(lambda: "no worker yet" in joining.text("stderr"))
    start("worker", address, "--nthreads", "1", "--memory-limit", "1GB", "--no-nanny")
    book.until(lambda: joining.idle)
    assert not joining.failure
    book.ok("""
        import workbench as wb
        assert wb.get(wb.remote(len).remote("abc")) == 3
        ref = wb.remote(lambda: __import__("threading").Event().wait(3600)).remote()
        future = ref.future()
    """)
    cell = book.start("print('waits', flush=True)\nwb.get(ref)")
    book.until(cell.text)
    process.kill()
    book.until(lambda: cell.idle)
    assert "SessionError" in cell.failure
    assert "scheduler was lost" in cell.failure
    book.fails("future.result(60)", "SessionError", "scheduler was lost")
    book.fails("wb.put(1)", "SessionError", "scheduler was lost")


BURST = """
import sys, workbench as wb
if __name__ == "__main__":
    wb.init({options}, session="burst", log_to_driver=False)
    short = wb.remote(lambda n: print(n))
    refs = [short.remote(n) for n in range(3000)]
    wb.wait(refs, num_returns=20)
    print("busy", flush=True)
    wb.wait(refs, num_returns=3000)
    sys.stdin.read()
"""


def test_a_driver_killed_in_a_burst_harms_none(book: Book, dask: Cluster, tmp_path: Path) -> None:
    """All workers stay, and other people's futures, which run meanwhile, are done."""
    book.ok(f"""
        from distributed import Client
        other = Client({dask.address!r}, set_as_default=False)
        workers = set(other.nthreads())
        futures = other.map(lambda n: __import__("threading").Event().wait(0.005) or n, range(2000))
    """)
    place = tmp_path / "burst.py"
    place.write_text(BURST.format(options=dask.options))
    driver = subprocess.Popen(
        [sys.executable, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, **dask.environment},
    )  # fmt: skip
    with driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"busy\n"
        os.kill(driver.pid, signal.SIGKILL)
    book.ok("""
        assert sum(other.gather(futures)) == sum(range(2000))
        assert set(other.nthreads()) == workers
        assert wb.get(wb.remote(len).remote("abc")) == 3
        del futures
        other.close()
    """)


def test_running_is_what_is_at_work_and_ours(book: Book, dask: Cluster, gate: Gate) -> None:
    slots = dask.workers
    book.ok(f"""
        from workbench import context
        def wait(): {gate.wait}
        tasks = [wb.remote(wait).remote() for _ in range({slots} + 3)]
        for _ in range(10_000):
            seen = context.get().backend.parts()
            if (seen.running, seen.queued) == ({slots}, 3): break
            pause(0.01)
    """)
    assert book.value("(seen.running, seen.queued)") == f"({slots}, 3)"
    assert book.value("context.get().workers") == str(slots)
    assert f"{slots} workers ({slots} busy)" in book.ok("%workbench").text()
    assert book.value("{task for worker in seen.workers for task in worker.tasks}") == "{'wait'}"
    gate.open(slots + 3)
    book.ok("wb.get(tasks)")


def test_results_that_are_lost_with_a_worker_are_made_again(book: Book, dask: Cluster) -> None:
    """By Dask. Large ones: small ones are in the notebook by then."""
    book.ok(f"""
        refs = [wb.remote(np.full).remote(500_000, n) for n in range({dask.workers})]
        wb.wait(refs, num_returns=len(refs))
    """)
    dask.ask("kill_node")
    book.ok("assert [int(each[0]) for each in wb.get(refs, timeout=120)] == [*range(len(refs))]")


def test_what_is_ignored_is_said_where_it_is_asked_for(book: Book, dask: Cluster) -> None:
    book.ok("""
        @wb.remote
        class Empty: pass
    """)
    told = book.ok("kept = Empty.options(max_restarts=1).remote()").text("stderr")
    assert book.lacks["restarts"] in " ".join(told.split())
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


SMALL = {"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false", "OMP_NUM_THREADS": "1"}


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
        from distributed import Client, LocalCluster
        from distributed.security import Security
        security = Security.temporary()
        with LocalCluster(1, threads_per_worker=2, security=security, dashboard_address=None) as c:
            with Client(c, set_as_default=False) as client:
                assert c.scheduler_address.startswith("tls://")
                with wb.init(client):
                    print(shown())
    """
    assert told(code, tmp_path, **SMALL) == "None\n"
