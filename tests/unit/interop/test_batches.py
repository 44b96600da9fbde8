"""How many of joblib's calls are sent as one, by how long those before have taken."""

from __future__ import annotations

from concurrent.futures import Future

from workbench.interop.calls import ChunkResult
from workbench.interop.joblib import BATCH_SECONDS, GROWTH, MOST_CALLS, WorkbenchBackend


def backend(*ran: tuple[int, float]) -> WorkbenchBackend:
    """One to which batches came back: (calls, seconds that all took)."""
    found = WorkbenchBackend(nesting_level=0)
    for calls, seconds in ran:
        future: Future[ChunkResult] = Future()
        future.set_result(ChunkResult([1] * calls, seconds))
        assert found.retrieve_result_callback(future) == [1] * calls
    return found


def test_as_many_as_take_their_time_and_no_more_than_were_measured() -> None:
    assert backend().compute_batch_size() == 1
    assert backend((1, 1e-6)).compute_batch_size() == GROWTH
    assert backend((1, 1e-6), (GROWTH, 1e-6)).compute_batch_size() == GROWTH * (GROWTH + 1)
    each = BATCH_SECONDS / 50.5
    assert backend(*[(10, 10 * each)] * 20).compute_batch_size() == 50
    assert MOST_CALLS - 1 <= backend(*[(10, 0.0)] * 1000).compute_batch_size() <= MOST_CALLS
    ran = [(100, 1e-6)] * 9  # slow ones count at once
    assert backend(*ran, (100, 100.0)).compute_batch_size() == 1
    assert backend(*ran, (100, 100.0), *ran * 5).compute_batch_size() > 100


def test_the_next_call_begins_anew() -> None:
    found = backend((100, 1e-6))
    found.terminate()
    assert found.compute_batch_size() == 1
