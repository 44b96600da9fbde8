"""Torch's tensors: read where they lie, written to without harm. Slow: torch is large.

`make slow` installs it.
"""

from __future__ import annotations

import os
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

import pytest

import workbench as wb
from tests.process.processes import mapping_of
from workbench.engines.base import Engine
from workbench.serialization import codec

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    return torch


def tensors(torch: Any) -> dict[str, Any]:
    plain = torch.arange(400_000.0)  # in every dtype so large that it is mapped
    return {
        "plain": plain,
        "strided": plain[::2],
        "transposed": plain.reshape(100, -1).T,
        "half": plain.half(),
        "bfloat16": plain.bfloat16(),
        "complex": plain.to(torch.complex64),
        "bool": plain > 3,
        "small": torch.arange(3),
        "empty": torch.empty(0, 3),
        "0-d": torch.tensor(3.5),
        "with a gradient": plain.clone().requires_grad_(),
        "a parameter": torch.nn.Parameter(plain),
        "conjugated": plain.to(torch.complex64).conj(),
        "sparse": torch.eye(50).to_sparse(),
    }


def test_every_kind_comes_back(torch: Any, session: Engine) -> None:
    @wb.remote
    def echo(value: Any) -> Any:
        return value

    for kind, tensor in tensors(torch).items():
        ref = wb.put({"t": tensor})
        for got in (wb.get(ref), wb.get(ref, copy=True), wb.get(echo.remote(ref))):
            back = got["t"]
            assert type(back) is type(tensor), kind
            assert back.dtype == tensor.dtype, kind
            assert back.requires_grad == tensor.requires_grad, kind
            assert torch.equal(back.to_dense(), tensor.to_dense()), kind


def test_they_are_read_where_they_lie_and_writing_is_private(torch: Any, session: Engine) -> None:
    for kind in ("plain", "strided", "transposed", "half", "bfloat16", "a parameter"):
        tensor = tensors(torch)[kind].detach()
        assert codec.serialize(tensor, {}).outband == tensor.numel() * tensor.element_size()
        ref = wb.put(tensor)
        one, other = wb.get(ref), wb.get(ref)
        assert mapping_of(one.data_ptr()).startswith("rw-p /memfd:workbench"), kind
        one.mul_(2)
        assert torch.equal(other, tensor), kind
        assert torch.equal(wb.get(ref), tensor), kind

        @wb.remote
        def change(t: Any) -> float:
            t.add_(1)
            return float(t.double().sum())

        assert wb.get(change.remote(ref)) == float((tensor + 1).double().sum())
        assert torch.equal(wb.get(ref), tensor)


def test_small_ones_take_no_descriptors(torch: Any, session: Engine) -> None:
    ref = wb.put([torch.arange(float(n)) for n in range(500)])
    wb.get(ref)
    before = len(os.listdir("/proc/self/fd"))
    got = wb.get(ref)
    assert len(os.listdir("/proc/self/fd")) == before
    got[-1].mul_(2)
    assert torch.equal(wb.get(ref)[-1], torch.arange(499.0))


def test_a_model_is_trained_where_it_came(torch: Any, session: Engine) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.Linear(300, 1))
    assert codec.serialize(model, {}).inband < 5000
    got = wb.get(wb.put(model))
    optimizer = torch.optim.SGD(got.parameters(), lr=0.1)
    before = [p.detach().clone() for p in model.parameters()]
    got(torch.ones(4, 200)).sum().backward()
    optimizer.step()
    assert not torch.equal(got[0].weight, model[0].weight)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


class Rows:
    """A data set of torch's, whose rows are those of a stored tensor: by a ref, or a name."""

    def __init__(self, what: Any, length: int) -> None:
        self.what, self.length = what, length
        self.rows: Any = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, row: int) -> Any:
        if self.rows is None:
            self.rows = wb.get(self.what)
        return self.rows[row], mapping_of(self.rows.data_ptr()) == "rw-p /memfd:workbench"


def join(session: str, worker: int) -> None:
    wb.init(session=session)


@pytest.mark.parametrize(("method", "by"), [("fork", "ref"), ("fork", "name"), ("spawn", "name")])
def test_the_processes_of_a_data_loader_read_where_it_lies(
    torch: Any, session: Engine, method: str, by: str
) -> None:
    from torch.utils.data import DataLoader

    rows = torch.arange(100_000.0).reshape(100, -1)
    ref = wb.put(rows, name="rows")
    loader = DataLoader(
        Rows(ref if by == "ref" else "rows", len(rows)),
        batch_size=10,
        num_workers=2,
        multiprocessing_context=method,
        worker_init_fn=partial(join, session.session),
    )
    batches = list(loader)
    assert torch.equal(torch.cat([batch for batch, _ in batches]), rows)
    assert all(in_place.all() for _, in_place in batches)
    wb.free("rows")
    tracker: Any = resource_tracker
    tracker._resource_tracker._stop()  # which torch's processes leave running
