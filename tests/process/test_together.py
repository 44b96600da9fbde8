"""Submits that are known to follow each other go as one message, and none is forgotten."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.patience import TIMEOUT
from workbench.client import connection
from workbench.engine.base import Engine


def double(x: int) -> int:
    return 2 * x


@pytest.fixture(autouse=True)
def for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TOGETHER", 1000 * TIMEOUT)


def test_all_go_when_they_are_there_or_somebody_waits(session: Engine) -> None:
    remote = wb.remote(double)
    with session.together():
        refs = [remote.remote(n) for n in range(20)]
    assert wb.get(refs, timeout=TIMEOUT) == [2 * n for n in range(20)]
    with session.together():
        assert wb.get(remote.remote(3), timeout=TIMEOUT) == 6
    assert wb.get(remote.remote(4), timeout=TIMEOUT) == 8


def test_an_error_among_them_keeps_none_back(session: Engine) -> None:
    refs = []

    def submit_and_fail() -> None:
        with session.together():
            refs.append(wb.remote(double).remote(2))
            raise LookupError

    with pytest.raises(LookupError):
        submit_and_fail()
    assert wb.get(refs, timeout=TIMEOUT) == [4]


def test_maps_of_executors_and_pools(session: Engine) -> None:
    with wb.Executor() as executor, wb.Pool() as pool:
        for _ in range(3):
            assert list(executor.map(double, range(50))) == [2 * n for n in range(50)]
            assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
            assert pool.map(double, range(50)) == [2 * n for n in range(50)]
            assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
