"""Torch's tensors: read where they lie, written to without harm. Slow: torch is large.

`make slow` installs it.
"""

from __future__ import annotations

from typing import Any

import pytest

import workbench as wb
from tests.process.processes import mapping_of
from workbench.engine.base import Engine
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
