"""Cheaper forms of what people store: which exist for a value, and how to write them.

One adviser per row of the table at the end. None changes its value, or examines all of a very
long one.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import functools
import importlib.util
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from workbench.expressions import describe
from workbench.format import human_bytes, human_count
from workbench.serialization.dataframes import column_label
from workbench.serialization.object_state import bindings
from workbench.serialization.sampling import spread

MANY = 1000
"""Objects from which their form matters."""

FEW = 10
"""Texts suit a category if each appears this many times on average."""

LOOKED_AT = 100_000
"""Items of one container whose types are examined; of a longer one, a sample of this size."""

LARGE_BYTES = 1_000_000
"""Size from which it matters that each reader copies the bytes."""


class Idea(NamedTuple):
    """Another form of a value: what the value is now, and how to write the other form."""

    what: str
    before: Any
    """The original object."""

    form: str
    """Name of the other form: ``as Arrow strings``."""

    how: str
    make: Callable[[Any], Any]
    """Makes the other form of the value, or of some of its rows."""

    take: Callable[[Any, Sequence[int]], Any] | None = None
    """Takes the rows with these numbers; None: the value has no rows."""


Form = tuple[str, str, Callable[[Any], Any]]
"""Name of another form, how to write it, and the function that makes it: as in `Idea`."""


def _as_dtype(name: str, dtype: str, form: str = "") -> Form:
    make = operator.methodcaller("astype", dtype)
    return form or f"as {dtype}", f"`{name}.astype({dtype!r})`", make


def _items(value: Any, numbers: Sequence[int]) -> Any:
    return type(value)([value[n] for n in numbers])


def _rows(value: Any, numbers: Sequence[int]) -> Any:
    return value.iloc[numbers]


_at = operator.getitem


def _looked_at(value: Any, take: Callable[[Any, Sequence[int]], Any]) -> Any:
    return value if len(value) <= LOOKED_AT else take(value, spread(len(value), LOOKED_AT))


# -- tables ---------------------------------------------------------------------------------------


def _pandas(value: Any, name: str) -> Iterator[Idea]:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    if isinstance(value, pandas.Series):
        yield from _column(value, name, name, _rows)
    elif isinstance(value, pandas.DataFrame):
        for i, column in enumerate(value.columns):
            written = f"{name}{column_label(column, i, value.columns.is_unique)}"
            yield from _column(value.iloc[:, i], f"column {column!r}", written, _rows)
    index = value if isinstance(value, pandas.Index) else getattr(value, "index", None)
    called = name if index is value else f"{name}.index"
    if isinstance(index, pandas.MultiIndex):
        yield from _levels(index, called)
    elif isinstance(index, pandas.Index):
        yield from _column(index, called, called, _at)


def _levels(index: Any, name: str) -> Iterator[Idea]:
    for n, level in enumerate(index.levels):
        for idea in _column(level, f"{name} level {n}", f"{name}.levels[{n}]", _at):
            yield idea._replace(how=f"`{name}.set_levels({idea.how[1:-1]}, level={n})`")


def _column(
    column: Any, called: str, name: str, take: Callable[[Any, Sequence[int]], Any]
) -> Iterator[Idea]:
    """Yield other forms for a column or index of objects; missing values don't count."""
    pandas: Any = sys.modules["pandas"]
    python_text = getattr(column.dtype, "storage", "") == "python"
    rows = len(column)
    if rows < MANY or not (column.dtype == object or python_text):
        return
    objects = np.asarray(_looked_at(column, take), dtype=object)
    present = objects[~pandas.isna(objects)]
    kinds = {*map(type, present)}
    if len(kinds) != 1 and _numbers_of(objects) is None:
        return
    what = f"{called} ({column.dtype}, {human_count(rows)} {type(present[0]).__name__})"
    for form in _forms(objects, present, kinds, name):
        yield Idea(what, column, *form, take)


def _forms(objects: Any, present: Any, kinds: set[type], name: str) -> Iterator[Form]:
    """Yield the other forms that a column of these objects can have."""
    pandas: Any = sys.modules["pandas"]
    numbers = _numbers_of(objects)
    if numbers is not None:
        yield _as_dtype(name, str(numbers))
    elif kinds <= {int, float, bool}:  # with missing values
        numbers = _numbers_of(present)
        if numbers is not None:
            yield _as_dtype(name, _WITH_MISSING[str(numbers)])
    elif kinds == {str}:
        if _has_arrow():
            yield _as_dtype(name, "string[pyarrow]", "as Arrow strings")
        if len({*present}) * FEW <= len(present):
            yield _as_dtype(name, "category", "as a category")
    elif kinds == {datetime.datetime}:
        yield "as datetime64", f"`pd.to_datetime({name})`", pandas.to_datetime
    elif kinds == {datetime.timedelta}:
        yield "as timedelta64", f"`pd.to_timedelta({name})`", pandas.to_timedelta
    elif kinds == {decimal.Decimal} and _has_arrow():
        exact = importlib.import_module("pyarrow").array(present).type
        make = operator.methodcaller("astype", pandas.ArrowDtype(exact))
        yield "as Arrow decimals", f"`{name}.astype(pd.ArrowDtype(pa.{exact}))`", make
    elif kinds <= _ARROW_TYPES.keys() and _has_arrow():
        yield _as_dtype(name, *_ARROW_TYPES[next(iter(kinds))])


_WITH_MISSING = {"int64": "Int64", "float64": "Float64", "bool": "boolean"}
_ARROW_TYPES = {
    datetime.date: ("date32[pyarrow]", "as Arrow dates"),
    datetime.time: ("time64[us][pyarrow]", "as Arrow times"),
    bytes: ("binary[pyarrow]", "as Arrow bytes"),
}


def _has_arrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


# -- sequences of small objects -------------------------------------------------------------------


def _sequence(value: Any, name: str) -> Iterator[Idea]:
    """Yield other forms for numbers, texts, dates, rows of numbers, and records of any kind."""
    if type(value) not in (list, tuple) or len(value) < 2:
        return
    some = _looked_at(value, _items)
    kinds = {*map(type, some)}
    many = len(value) >= MANY
    plain = _plain_array(some, name) if many else None
    if plain is not None:
        yield Idea(f"{name} ({_counted(value)})", value, *plain, _items)
    elif kinds in ({list}, {tuple}):
        yield from _matrix(value, some, name)
    elif many and kinds == {dict}:
        yield from _records(value, some, name)
    elif many and len(kinds) == 1:
        yield from _objects(value, some, name)


def _plain_array(values: Any, name: str) -> Form | None:
    """Return the form of an array that equals these values; None if there is none."""
    dtype = _numbers_of(values) or _dated(values)
    if dtype is not None:
        said = "" if dtype.kind in "fib" else f", {str(dtype)!r}"
        make = functools.partial(np.array, dtype=dtype)
        return "as an array", f"`np.array({name}{said})`", make
    kinds = {*map(type, values)}
    if kinds in ({str}, {str, type(None)}, {decimal.Decimal}) and _has_arrow():
        return "as an Arrow array", f"`pa.array({name})`", _as_arrow
    return None


def _dated(values: Any) -> np.dtype[Any] | None:
    """Return an array dtype for these, if they are dates, or datetimes without a time zone."""
    kinds = {*map(type, values)}
    if kinds == {datetime.datetime} and {v.tzinfo for v in values} == {None}:
        return np.dtype("datetime64[us]")
    return np.dtype("datetime64[D]") if kinds == {datetime.date} else None


def _as_arrow(values: Any) -> Any:
    return importlib.import_module("pyarrow").array(values)


def _matrix(value: Any, some: Any, name: str) -> Iterator[Idea]:
    rows, columns = len(value), len(value[0])
    if rows * columns < MANY or any(len(row) != columns for row in some):
        return
    if len(some) * columns > LOOKED_AT:
        some = [some[n] for n in spread(len(some), max(1, LOOKED_AT // columns))]
    if _numbers_of([cell for row in some for cell in row]) is not None:
        what = f"{name} ({human_count(rows)} rows of {human_count(columns)})"
        yield Idea(what, value, "as an array", f"`np.array({name})`", np.array, _items)


def _objects(value: Any, some: Any, name: str) -> Iterator[Idea]:
    """Yield other forms for named tuples and instances with only plain attributes."""
    names = _attributes(value[0])
    if not names:
        return
    what = f"{name} ({_counted(value)})"
    if all(_numbers_of([getattr(v, a) for v in some]) is not None for a in names):
        first = f"{names[0]} = np.array([o.{names[0]} for o in {name}])"
        rest = f", and so for {', '.join(names[1:])}" if len(names) > 1 else ""
        yield Idea(
            what,
            value,
            "as one array per attribute",
            f"`{first}`{rest}",
            lambda v: {a: np.array([getattr(o, a) for o in v]) for a in names},
            _items,
        )
        return
    pandas = sys.modules.get("pandas")
    is_plain = all({*map(type, (getattr(v, a) for v in some))} <= _CELLS for a in names)
    if pandas is None or not is_plain:
        return
    if isinstance(value[0], tuple):
        how, make = f"`pd.DataFrame({name})`", pandas.DataFrame
    elif names == [*getattr(value[0], "__dict__", {})]:
        how = f"`pd.DataFrame([vars(o) for o in {name}])`"
        make = lambda v: pandas.DataFrame([vars(o) for o in v])  # noqa: E731
    else:
        return
    yield Idea(what, value, "as a DataFrame", how, make, _items)


_CELLS = frozenset({str, int, float, bool, type(None)})


def _attributes(instance: Any) -> list[str]:
    """Return the attribute names of an instance of a Python class; empty for other kinds."""
    if isinstance(instance, tuple):
        return [*getattr(instance, "_fields", ())]
    if isinstance(instance, list | dict | set | str | bytes | np.ndarray | type):
        return []
    slots = (c.__dict__.get("__slots__", ()) for c in type(instance).__mro__)
    in_slots = [name for s in slots for name in ((s,) if isinstance(s, str) else s)]
    names = [*in_slots, *getattr(instance, "__dict__", {})]
    return [name for name in names if not name.startswith("__")]


def _records(value: Any, some: Any, name: str) -> Iterator[Idea]:
    keys = list(value[0])
    if not keys or any(row.keys() != value[0].keys() for row in some):
        return
    if any(len({type(row[key]) for row in some}) != 1 for key in keys):
        return
    what = f"{name} ({human_count(len(value))} dicts with the same {len(keys)} keys)"
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        how = f"`pd.DataFrame({name})`"
        yield Idea(what, value, "as a DataFrame", how, pandas.DataFrame, _items)
    elif all(_numbers_of([row[key] for row in some]) is not None for key in keys):
        how = f"`{{k: np.array([r[k] for r in {name}]) for k in {name}[0]}}`"
        make = lambda v: {k: np.array([r[k] for r in v]) for k in keys}  # noqa: E731
        yield Idea(what, value, "as one array per key", how, make, _items)


def _collection(value: Any, name: str) -> Iterator[Idea]:
    """Yield other forms for sets, deques and dicts of numbers."""
    if type(value) not in (set, frozenset, collections.deque, dict) or len(value) < MANY:
        return
    some = _first(value, range(LOOKED_AT))
    items = [*some]
    if _numbers_of(items) is None:
        return
    what = f"{name} ({type(value).__name__} of {human_count(len(value))} {type(items[0]).__name__})"
    if type(value) is not dict:
        how = f"`np.array([*{name}])`"
        yield Idea(what, value, "as an array", how, lambda v: np.array([*v]), _first)
    elif _numbers_of([*some.values()]) is not None:
        how = f"`np.array([*{name}]), np.array([*{name}.values()])`"
        make = lambda v: (np.array([*v]), np.array([*v.values()]))  # noqa: E731
        form = "as an array of the keys and one of the values"
        yield Idea(what, value, form, how, make, _first)


def _first(value: Any, numbers: Sequence[int]) -> Any:
    """Return the first items: finding later ones takes as long as reading all."""
    some = value.items() if type(value) is dict else value
    return type(value)(islice(some, len(numbers)))


# -- arrays, matrices, bytes ----------------------------------------------------------------------


def _array(value: Any, name: str) -> Iterator[Idea]:
    """Yield other forms for arrays of objects and of numpy's own strings."""
    if type(value) is not np.ndarray or value.size < MANY:
        return
    is_text = value.dtype.char == "T"
    if value.dtype != object and not is_text:
        return
    flat = value if value.ndim == 1 else value.reshape(-1)
    some = _looked_at(flat, _at)
    form = _plain_array(some.tolist(), name)
    if form is None:
        return
    kind = "texts of numpy" if is_text else f"{type(flat[0]).__name__} as objects"
    what = f"{name} ({human_count(value.size)} {kind})"
    dtype = _numbers_of(some) or _dated(some)
    if dtype is not None:
        form = _as_dtype(name, str(dtype))
    elif value.ndim > 1:
        return
    yield Idea(what, value, *form, _at if value.ndim == 1 else None)


def _sparse(value: Any, name: str) -> Iterator[Idea]:
    if getattr(value, "format", "") not in ("lil", "dok") or "scipy.sparse" not in sys.modules:
        return
    what = f"{name} ({type(value).__name__} {value.shape}, {human_count(value.nnz)} values)"
    yield Idea(what, value, "as csr", f"`{name}.tocsr()`", operator.methodcaller("tocsr"))


def _bytes(value: Any, name: str) -> Iterator[Idea]:
    """Yield a memoryview for bytes that each reader copies, because Python owns them."""
    if type(value) not in (bytes, bytearray, array.array):
        return
    size = memoryview(value).nbytes
    if size >= LARGE_BYTES:
        what = f"{name} ({type(value).__name__}, {human_bytes(size)}), which each reader copies"
        yield Idea(what, value, "as a memoryview", f"`memoryview({name})`", memoryview)


# -- functions ------------------------------------------------------------------------------------


def _captured(value: Any, name: str) -> Iterator[Idea]:
    """Yield advice on variables that a function takes along; also if the function is wrapped."""
    if not isinstance(value, FunctionType) and callable(value):
        value = vars(value).get("__wrapped__")  # a remote function
    if not isinstance(value, FunctionType):
        return
    for (what, place), held in sorted(bindings(value).items(), key=operator.itemgetter(0)):
        is_code = isinstance(held, ModuleType | FunctionType | BuiltinFunctionType | type)
        if what not in ("cell", "global") or is_code:
            continue
        how, variable = "has the global", str(place)
        if isinstance(place, int):
            how, variable = "closes over", value.__code__.co_freevars[place]
        yield Idea(
            f"{name} {how} `{variable}` ({describe(held)}), which travels each time it is sent",
            value,
            "without it",
            f"pass it as an argument, or `ref = put({variable})` and pass `ref`",
            functools.partial(_without, variable=variable),
        )


def _without(function: FunctionType, variable: str) -> FunctionType:
    """Copy a function, with one variable set to None."""
    code = function.__code__
    cells = tuple(
        CellType(None) if name == variable else cell
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
    )
    namespace = dict(function.__globals__)
    if variable not in code.co_freevars:
        namespace[variable] = None
    other = FunctionType(code, namespace, function.__name__, function.__defaults__, cells)
    other.__kwdefaults__ = function.__kwdefaults__
    return other


# -- numbers -------------------------------------------------------------------------------------


def _numbers_of(values: Any) -> np.dtype[Any] | None:
    """Return the dtype of an array that equals these, if they are numbers."""
    kinds = {*map(type, values)}
    if kinds == {float}:
        return np.dtype(float)
    if kinds == {bool}:
        return np.dtype(bool)
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return np.dtype(np.int64)
    if kinds == {int, float} and all(abs(v) <= 2**53 for v in values if type(v) is int):
        return np.dtype(float)
    return None


def _counted(values: Any) -> str:
    return f"{human_count(len(values))} {type(values[0]).__name__}"


ADVISERS: tuple[Callable[[Any, str], Iterator[Idea]], ...] = (
    _pandas,
    _sequence,
    _collection,
    _array,
    _sparse,
    _bytes,
    _captured,
)
