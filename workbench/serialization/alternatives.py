"""Other forms of what people store, and how one writes them. Says nothing of what is better.

One adviser a row of the table at the end. None changes what it is given.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from workbench.report.format import human_count
from workbench.serialization.codec import describe

MANY = 1000
"""Objects from which their form matters."""

FEW = 10
"""Texts are few if each comes that many times."""


class Idea(NamedTuple):
    """Another form of something.

    Attributes
    ----------
    what : str
        What it is now.
    before : object
        The very object. With ``rows``, it has that many, and can be sliced.
    make : callable(object) → object
        Makes the other form of it, or of a slice.
    form : str
        What the other form is called: ``as Arrow strings``.
    how : str
        How to write it.
    """

    what: str
    before: Any
    make: Callable[[Any], Any]
    form: str
    how: str
    rows: int = 0


def _pandas_columns(value: Any, name: str) -> Iterator[Idea]:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    if isinstance(value, pandas.Series):
        yield from _series(value, f"{name}", name)
    elif isinstance(value, pandas.DataFrame):
        for i, column in enumerate(value.columns):
            yield from _series(value.iloc[:, i], f"column {column!r}", f"{name}[{column!r}]")


def _series(series: Any, called: str, name: str) -> Iterator[Idea]:
    python_text = getattr(series.dtype, "storage", "") == "python"
    if len(series) < MANY or not (series.dtype == object or python_text):
        return
    objects = series.to_numpy()
    numbers = _numbers_of(objects)
    held = set(map(type, objects)) - {type(None)}
    if numbers is not None:
        what = f"{called} ({series.dtype}, {_counted(objects)})"
        yield Idea(
            what, series, lambda s: s.astype(numbers), f"as {numbers}",
            f"`{name}.astype({str(numbers)!r})`", len(series),
        )  # fmt: skip
    elif str in held and _is_text(series, held, python_text):
        what = f"{called} ({series.dtype}, {human_count(len(series))} str)"
        if importlib.util.find_spec("pyarrow"):
            yield Idea(
                what, series, lambda s: s.astype("string[pyarrow]"), "as Arrow strings",
                f"`{name}.astype('string[pyarrow]')`", len(series),
            )  # fmt: skip
        if series.nunique() * FEW <= len(series):
            yield Idea(
                what, series, lambda s: s.astype("category"), "as a category",
                f"`{name}.astype('category')`", len(series),
            )  # fmt: skip


def _is_text(series: Any, held: set[type], python_text: bool) -> bool:
    """Nothing but texts, and what stands for a missing one."""
    if held == {str} or python_text:
        return True
    return all(isinstance(v, str) for v in series.dropna())


def _numbers(value: Any, name: str) -> Iterator[Idea]:
    if type(value) not in (list, tuple) or len(value) < MANY:
        return
    dtype = _numbers_of(value)
    if dtype is not None:
        yield Idea(
            f"{name} ({_counted(value)})", value, lambda v: np.array(v, dtype), "as an array",
            f"`np.array({name})`", len(value),
        )  # fmt: skip


def _matrix(value: Any, name: str) -> Iterator[Idea]:
    """Rows of one length, of numbers of one kind."""
    if type(value) not in (list, tuple) or len(value) < 2:
        return
    if set(map(type, value)) not in ({list}, {tuple}) or len(set(map(len, value))) != 1:
        return
    rows, columns = len(value), len(value[0])
    if rows * columns >= MANY and _numbers_of([cell for row in value for cell in row]) is not None:
        yield Idea(
            f"{name} ({human_count(rows)} rows of {human_count(columns)})", value, np.array,
            "as an array", f"`np.array({name})`", rows,
        )  # fmt: skip


def _objects(value: Any, name: str) -> Iterator[Idea]:
    """Instances of one class, which have nothing but numbers."""
    if type(value) not in (list, tuple) or len(value) < MANY or len(set(map(type, value))) != 1:
        return
    cls = type(value[0])
    names = _attributes(value[0])
    if not names or any(_numbers_of([getattr(v, a) for v in value]) is None for a in names):
        return
    first = f"{names[0]} = np.array([o.{names[0]} for o in {name}])"
    rest = f", and so for {', '.join(names[1:])}" if len(names) > 1 else ""
    yield Idea(
        f"{name} ({human_count(len(value))} {cls.__name__})", value,
        lambda v: {a: np.array([getattr(o, a) for o in v]) for a in names},
        "as one array per attribute", f"`{first}`{rest}", len(value),
    )  # fmt: skip


def _attributes(instance: Any) -> list[str]:
    """Of an instance of a class written in Python; empty if there is more to it than these."""
    cls = type(instance)
    if isinstance(instance, tuple | list | dict | set | str | np.ndarray | type):
        return []
    slots = [s for c in cls.__mro__ for s in _as_tuple(c.__dict__.get("__slots__", ()))]
    names = [*slots, *getattr(instance, "__dict__", {})]
    return [n for n in names if not n.startswith("__")]


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _records(value: Any, name: str) -> Iterator[Idea]:
    """Dicts with the same keys, whose values have one kind a key."""
    if type(value) not in (list, tuple) or len(value) < MANY or set(map(type, value)) != {dict}:
        return
    keys = list(value[0])
    if not keys or any(row.keys() != value[0].keys() for row in value):
        return
    if any(len({type(row[key]) for row in value}) != 1 for key in keys):
        return
    what = f"{name} ({human_count(len(value))} dicts with the same {len(keys)} keys)"
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        how = f"`pd.DataFrame({name})`"
        yield Idea(what, value, pandas.DataFrame, "as a DataFrame", how, len(value))
    elif all(_numbers_of([row[key] for row in value]) is not None for key in keys):
        how = f"`{{k: np.array([r[k] for r in {name}]) for k in {name}[0]}}`"
        yield Idea(
            what, value, lambda v: {k: np.array([r[k] for r in v]) for k in keys},
            "as one array per key", how, len(value),
        )  # fmt: skip


def _object_array(value: Any, name: str) -> Iterator[Idea]:
    if type(value) is not np.ndarray or value.dtype != object or value.size < MANY:
        return
    dtype = _numbers_of(value.ravel())
    if dtype is not None:
        yield Idea(
            f"{name} ({_counted(value.ravel())} as objects)", value, lambda v: v.astype(dtype),
            f"as {dtype}", f"`{name}.astype({str(dtype)!r})`", len(value),
        )  # fmt: skip


def _luggage(value: Any, name: str) -> Iterator[Idea]:
    """What a function takes along wherever it goes."""
    if not isinstance(value, FunctionType):
        return
    variables = value.__code__.co_freevars
    for variable, cell in zip(variables, value.__closure__ or (), strict=True):
        yield from _taken_along(value, name, "closes over", variable, cell.cell_contents)
    for variable in sorted(_names_in(value.__code__) & value.__globals__.keys()):
        held = value.__globals__[variable]
        yield from _taken_along(value, name, "has the global", variable, held)


def _taken_along(value: Any, name: str, how: str, variable: str, held: Any) -> Iterator[Idea]:
    if isinstance(held, ModuleType | FunctionType | BuiltinFunctionType | type):
        return
    yield Idea(
        f"{name} {how} `{variable}` ({describe(held)}), which travels each time it is exported",
        value, lambda function: _without(function, variable), "without it",
        f"pass it as an argument, or `ref = put({variable})` and pass `ref`",
    )  # fmt: skip


def _names_in(code: CodeType) -> set[str]:
    inner = (_names_in(c) for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*inner)


def _without(function: FunctionType, variable: str) -> FunctionType:
    """The same function where one variable is None."""
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
    """The dtype of an array that is equal to these, if they are numbers."""
    kinds = set(map(type, values))
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
    _pandas_columns,
    _numbers,
    _matrix,
    _objects,
    _records,
    _object_array,
    _luggage,
)
