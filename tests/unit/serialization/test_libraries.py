"""What is read without a copy: the rows of docs/reference/values, against the real libraries."""

from __future__ import annotations

import array
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from tests.unit.serialization.samples import extent_of
from workbench.errors import SerializationError
from workbench.serialization import codec, libraries

PAGE = Path(__file__).parents[3] / "docs/reference/values.md"
N = 20_000
NUMBERS = np.arange(float(N))
TEXT = [f"text {i}" for i in range(N)]


@dataclass
class Model:
    """A class of the test's own."""

    weights: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and np.array_equal(self.weights, other.weights)


class Unregistered(pa.ExtensionType):
    """An Arrow type that the stream format can't name."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "workbench.test")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: Any, data: bytes) -> Unregistered:
        return cls()


def labelled_or_chunked() -> list[Any]:
    import dask.array as da
    import xarray as xr

    return [
        xr.DataArray(NUMBERS.reshape(100, -1), dims=("t", "x"), name="n", attrs={"unit": "m"}),
        xr.Dataset({"n": ("t", NUMBERS), "k": ("t", np.arange(N))}, {"t": NUMBERS}),
        da.from_array(NUMBERS.reshape(100, -1)).T + 1,
        xr.DataArray(da.from_array(NUMBERS, chunks=N // 4), dims="t"),
    ]


SAMPLES: dict[str, Callable[[], list[Any]]] = {
    "numpy arrays of every dtype without objects, of any layout": lambda: [
        NUMBERS, np.asfortranarray(NUMBERS.reshape(100, -1)), NUMBERS[::-1], NUMBERS.astype(">i4"),
        NUMBERS.reshape(100, 10, -1).transpose(2, 0, 1), np.broadcast_to(NUMBERS, (3, N)),
        np.zeros(N, [("i", "i4"), ("v", "f8", (2, 2)), ("s", "U3")]), np.zeros(N, "V5"),
    ],
    "numpy's masked arrays, record arrays, matrices; memory maps, as plain arrays": lambda: [
        np.ma.masked_less(NUMBERS, 9)[::2], np.rec.array(np.zeros(N, [("a", "i4")]))[::2],
        np.ma.MaskedArray(NUMBERS), np.ma.MaskedArray(NUMBERS, NUMBERS > 3, fill_value=-1),
        NUMBERS.reshape(100, -1).view(np.matrix),
    ],
    "numpy arrays of objects, and of the new strings (`StringDType`)": lambda: [
        np.array(TEXT, object), np.array(TEXT, np.dtypes.StringDType()),
    ],
    "pandas columns of numbers, dates, categories, intervals; nullable and Arrow-backed ones":
    lambda: [
        pd.DataFrame(NUMBERS.reshape(-1, 4))[::2],
        pd.DataFrame({"a": NUMBERS, "b": np.arange(N), "c": pd.Categorical(["x", "y"] * (N // 2))}),
        pd.DataFrame({"t": pd.date_range("2020", periods=N, tz="UTC"), "p": NUMBERS}),
        pd.DataFrame({"s": pd.Series(TEXT, dtype="string[pyarrow]"), "n": NUMBERS}),
        pd.DataFrame({"i": pd.array([1, None] * (N // 2), dtype="Int64")}),
        pd.Series(pd.interval_range(0, N)),
    ],
    "pandas columns of objects": lambda: [
        pd.DataFrame({"s": pd.Series(TEXT, dtype=object)}), pd.Series([[1]] * N),
    ],
    "pyarrow tables, batches, arrays; a slice stores only what it shows": lambda: [
        pa.table({"n": NUMBERS, "s": TEXT}), pa.table({"n": NUMBERS, "s": TEXT}).slice(9, N // 2),
        pa.table({"n": NUMBERS, "s": TEXT}).to_batches()[0].slice(9, N // 2),
        pa.array(TEXT), pa.array(["a", "b"] * N).dictionary_encode(),
        pa.chunked_array([TEXT, TEXT]).slice(5, N // 2),
    ],
    "scipy.sparse `csr`, `csc`, `coo`, `bsr`, `dia`": lambda: [
        sp.random_array((300, 300), density=0.2, rng=1).asformat(kind)
        for kind in ("csr", "csc", "coo", "bsr")
    ] + [
        sp.dia_array((np.ones((3, 300)), [-1, 0, 1]), shape=(300, 300)),
    ],
    "scipy.sparse `lil`, `dok`": lambda: [
        sp.random_array((90, 90), density=0.2, rng=1).asformat(kind) for kind in ("lil", "dok")
    ],
    "polars frames and series (pyarrow has to be there)": lambda: [
        pl.DataFrame({"n": NUMBERS, "s": TEXT}), pl.Series("n", NUMBERS),
        pl.DataFrame({"n": NUMBERS, "d": pl.Series([[1, 2]] * N)})[5 : N // 2],
    ],
    "xarray's arrays and data sets; dask arrays whose chunks are in memory": labelled_or_chunked,
    "`memoryview`": lambda: [
        memoryview(bytes(N)), memoryview(NUMBERS.reshape(100, -1)), memoryview(bytearray(N))[::2],
    ],
    "`bytes`, `str`": lambda: [bytes(N), "".join(TEXT), [bytes(N), "".join(TEXT)]],
    "`bytearray`, `array.array`": lambda: [bytearray(N), array.array("d", NUMBERS)],
    "lists, dicts, instances of your classes, that contain any of the above": lambda: [
        {"a": [NUMBERS, NUMBERS[::2]], "b": Model(NUMBERS)}, (Model(pa.array(TEXT)), NUMBERS),
        [np.arange(1000), pd.DataFrame({"x": NUMBERS})],
    ],
    "lists of numbers, dates or text, small objects, named tuples": lambda: [
        list(range(N)), list(TEXT), [Model(i) for i in range(1000)],
    ],
}  # fmt: skip
"""Made by each test: all that collect the tests would make them, and import these libraries."""


def table() -> dict[str, tuple[str, str]]:
    """The page's rows: what, (read where it lies?, what to do if not)."""
    text = PAGE.read_text().split("| what | read where it lies? |")[1]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", text.split("\n\n")[0], re.MULTILINE)
    return {what: (answer, advice) for what, answer, advice in rows if what != "---"}


ELSEWHERE = (
    "matplotlib figures",  # below
    "torch tensors on the CPU, parameters, modules; pyarrow's tensors",
    "objects that offer the Arrow PyCapsule interface or DLPack, and can't be pickled (arro3, "
    "nanoarrow); jax's arrays",
)
"""What other tests hold: tests/process/test_objects.py, test_interchange.py, and those that need
torch."""


def test_the_table_has_these_rows() -> None:
    assert [*table()] == [*SAMPLES, *ELSEWHERE]
    for what, (answer, advice) in table().items():
        assert answer.startswith("yes") or advice, f"{what}: what shall people do?"


def equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ma.MaskedArray):
        masks = (a.mask is np.ma.nomask) == (b.mask is np.ma.nomask) and (a.mask == b.mask).all()
        return equal(a.data, b.data) and masks and a.fill_value == b.fill_value
    if isinstance(a, np.ndarray):
        fortran = a.flags.f_contiguous and not a.flags.c_contiguous
        is_laid_out = b.flags.f_contiguous if fortran else b.flags.c_contiguous
        return a.dtype == b.dtype and np.array_equal(a, b) and is_laid_out
    if hasattr(a, "identical"):  # xarray's
        return bool(a.identical(b))
    if hasattr(a, "chunks") and hasattr(a, "compute"):  # dask's
        return a.chunks == b.chunks and equal(a.compute(), b.compute())
    if sp.issparse(a):
        return np.array_equal(a.toarray(), b.toarray())
    if hasattr(a, "equals"):  # pandas', polars' and Arrow's
        return bool(a.equals(b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def read_where_it_lies(value: Any, got: Any, extent: Any) -> bool:
    """Whether what is large in it is out of band, and the extent's own bytes."""
    again = codec.serialize(got, {})
    large = [buffer for buffer in again.buffers if buffer.nbytes > 64]
    return (
        bool(large)
        and again.inband < sum(buffer.nbytes for buffer in large) / 4
        and all(np.may_share_memory(buffer, extent) for buffer in large)
    )


@pytest.mark.parametrize("what", SAMPLES)
def test_what_the_table_says(what: str) -> None:
    in_place = table()[what][0].startswith("yes")
    for number, value in enumerate(SAMPLES[what]()):
        serialized = codec.serialize(value, {})
        extent = extent_of(serialized)
        got = codec.deserialize(serialized.header(), extent)
        assert equal(value, got), number
        assert read_where_it_lies(value, got, extent) == in_place, number
        assert equal(value, codec.deserialize_inline(serialized.inline())), number


def test_memory_maps_come_as_plain_arrays(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "file", "f8", "w+", shape=(100, 20))
    serialized = codec.serialize([mapped], {})
    (got,) = codec.deserialize(serialized.header(), extent_of(serialized))
    assert serialized.outband == mapped.nbytes
    assert equal(np.asarray(mapped), got)


def test_a_slice_of_arrow_data_leaves_the_rest_behind() -> None:
    table = pa.table({"n": NUMBERS, "s": TEXT})
    structs = pa.array([{"a": i, "b": [i]} for i in range(N)])
    words = pa.array(["a", "b"] * N).dictionary_encode()
    frame = pd.DataFrame({"s": pd.Series(TEXT, dtype="string[pyarrow]")})
    arrow = (table, table.to_batches()[0], pa.chunked_array([TEXT, TEXT]), structs, words)
    for whole, part in [*((each, each.slice(100, 10)) for each in arrow), (frame, frame[:10])]:
        serialized = codec.serialize({"part": part}, {})
        assert serialized.outband < codec.serialize(whole, {}).outband / 40
        got = codec.deserialize(serialized.header(), extent_of(serialized))["part"]
        assert equal(part, got)


def test_what_has_no_row_or_name_comes_back_too() -> None:
    empty = pa.table({"n": NUMBERS}).slice(3, 0)
    text = pd.DataFrame({"s": pd.Series(TEXT, dtype="string[pyarrow]")})[:0]
    arrow = pa.array(TEXT).slice(3, 0), empty, pa.table({"n": NUMBERS}).to_batches()[0].slice(3, 0)
    columns = pl.Series([1, 2]), pl.Series([1], dtype=pl.Int128)
    for value in (*arrow, text, *columns, pl.DataFrame({"": [1], "b": [2]})):
        serialized = codec.serialize(value, {})
        assert equal(value, codec.deserialize_inline(serialized.inline()))
        assert serialized.outband < 5000
    rows = codec.deserialize_inline(codec.serialize(pl.DataFrame(height=5), {}).inline())
    assert rows.shape == (5, 0)


def test_an_extension_type_that_is_not_registered_stays_one() -> None:
    array = pa.ExtensionArray.from_storage(Unregistered(), pa.array(range(N))).slice(3, 4)
    got = codec.deserialize_inline(codec.serialize(array, {}).inline())
    assert got.equals(array)
    assert got.type == array.type


def test_a_class_may_say_anything_of_its_module() -> None:
    for module in (None, 5):
        cls = type("Nowhere", (), {"__module__": module, "x": 3})
        assert codec.deserialize_inline(codec.serialize(cls(), {}).inline()).x == 3


def test_polars_columns_that_are_known_to_be_sorted_stay_so() -> None:
    frame = pl.DataFrame({"up": [1, 2], "down": [2, 1], "not": [1, 2], "text": ["a", "b"]})
    frame = frame.sort("up").with_columns(pl.col("down").set_sorted(descending=True))
    got = codec.deserialize_inline(codec.serialize(frame, {}).inline())
    assert got.equals(frame)
    assert got.flags == frame.flags
    series = frame.to_series(1)
    assert codec.deserialize_inline(codec.serialize(series, {}).inline()).flags == series.flags


def test_polars_columns_of_objects_are_refused() -> None:
    """Their Arrow form has nothing but pointers."""
    with pytest.raises(SerializationError, match="type Object is not supported"):
        codec.serialize(pl.DataFrame({"o": pl.Series([Model(1)], dtype=pl.Object)}), {})


def test_a_small_tensor_keeps_its_strides() -> None:
    for matrix in (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.ones((2, 3))):
        for stored in (matrix, pa.Tensor.from_numpy(matrix)):
            inline = codec.deserialize_inline(codec.serialize([stored], {}).inline())[0]
            assert inline.strides == matrix.strides
        matrix.flags.writeable = False
        assert libraries.writable(matrix).strides == matrix.strides


DRAWN = (
    "ax.plot(x, y); ax.twinx().plot(x, y); ax.legend(['a'])",
    "fig.colorbar(ax.imshow(square)); ax.scatter(x, y, c=y, s=y)",
    "ax.pcolormesh(square); ax.contourf(square[:50, :50])",
    "ax.imshow(np.ma.masked_less(square, 0.5)); ax.plot(np.ma.masked_less(y, 0.5))",
)
CHANGES = (
    "ax.set_xlim(0, 2); ax.margins(0.2); ax.autoscale_view(); ax.set_ylim(0.1, 3)",
    "fig.set_size_inches(3, 3); fig.subplots_adjust(left=0.3)",
    "for line in ax.lines: line.set_ydata(line.get_ydata() * 2)",
    "for each in [*ax.images, *ax.collections]: each.set_clim(0, 0.5); each.set_cmap('gray')",
    "ax.dataLim.x0 = 0; ax.viewLim.intervalx = (0, 1)",
    "ax.start_pan(1, 1, 1); ax.drag_pan(1, None, 20, 20); ax.end_pan()",
)


def drawn(code: str) -> Any:
    """A figure of large data, as somebody gets it whose memory it isn't."""
    from matplotlib.figure import Figure

    draw, fig = np.random.default_rng(0), Figure()
    x, y, square = np.linspace(0, 1, 20_000), draw.random(20_000), draw.random((140, 140))
    exec(code, {"np": np, "fig": fig, "ax": fig.subplots(), "x": x, "y": y, "square": square})
    fig.draw_without_rendering()
    return read_only(fig)


def read_only(value: Any) -> Any:
    serialized = codec.serialize(value, {})
    return codec.deserialize(serialized.header(), extent_of(serialized))


def picture(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=30)
    return file.getvalue()


@pytest.mark.extended
@pytest.mark.parametrize("code", DRAWN)
def test_a_figure_can_be_drawn_changed_and_stored_again(code: str) -> None:
    fig = drawn(code)
    first = picture(fig)
    for change in CHANGES:
        exec(change, {"fig": fig, "ax": fig.axes[0]})
        fig.draw_without_rendering()
    assert first != (last := picture(fig))
    assert picture(read_only(fig)) == last


def test_of_a_figure_only_what_matplotlib_writes_to_is_copied() -> None:
    axes = drawn("ax.plot(x, y); ax.imshow(square)").axes[0]
    read = axes.lines[0].get_ydata(orig=True), axes.images[0].get_array().data
    written = axes.spines["left"].get_path().vertices, axes.viewLim.get_points()
    assert [array.flags.writeable for array in (*read, *written)] == [False, False, True, True]
