"""What would be cheaper to serialize: other forms of what people store, made and measured.

One adviser a row of the table at the end; what it knows of is said only if it helps. None changes
what it is given.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import operator
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from workbench.report.format import human_bytes, human_count, human_seconds
from workbench.serialization.arrays import Reducers
from workbench.serialization.codec import describe
from workbench.serialization.measure import Figures, Measure

MANY = 1000
"""Objects from which their form matters."""

FEW = 10
"""Texts are few if each comes that many times."""

WORTH = 2
"""How many times cheaper it must be, in seconds or in bytes."""

CONSIDERED = 0.05
"""The share of all from which a part is worth a thought."""

NOTICED_SECONDS, NOTICED_BYTES = 1e-3, 10_000
"""Nobody notices what is saved below these."""

SAMPLE = 1_000_000
"""Rows that are tried; of more than these, every n-th."""


class Idea(NamedTuple):
    """Another form of something: what that is now, and how to write the other."""

    what: str
    before: Any
    """The very object. If it has a length, it has so many rows, and can be sliced."""

    make: Callable[[Any], Any]
    """Makes the other form of it, or of a slice."""

    form: str
    """What the other form is called: ``as Arrow strings``."""

    how: str


def advise(
    value: Any, path: str, total: Figures, reducers: Reducers, measure: Measure
) -> tuple[str, ...]:
    """What would make this part of a whole cheaper, which costs ``total``. Changes nothing."""
    expression = path.rpartition(" → ")[2]
    try:
        ast.parse(expression, mode="eval")
    except SyntaxError:  # an inner part of something else: nobody can write it otherwise there
        return ()
    if "__" in expression:
        return ()
    texts = []
    for adviser in ADVISERS:
        try:
            texts += [_tried(i, total, reducers, measure) for i in adviser(value, expression)]
        except Exception:  # the other form can't be made of it
            continue
    return tuple(filter(None, texts))


def _tried(idea: Idea, total: Figures, reducers: Reducers, measure: Measure) -> str | None:
    """The advice, if the form is worth it."""
    rows = len(idea.before) if hasattr(idea.before, "__len__") else 0
    step = -(-rows // SAMPLE) or 1
    sample = idea.before if step == 1 else idea.before[::step]
    before = measure(sample, reducers, {})
    if not (
        before.seconds * step >= CONSIDERED * total.seconds
        or before.bytes * step >= CONSIDERED * total.bytes
    ):
        return None
    after = measure(idea.make(sample), reducers, {})
    was, now = [], []
    if before.seconds - after.seconds >= max(NOTICED_SECONDS, after.seconds * (WORTH - 1)):
        was.append(_part_of(before.seconds, total.seconds, human_seconds, step))
        now.append(human_seconds(after.seconds))
    if before.bytes - after.bytes >= max(NOTICED_BYTES, after.bytes * (WORTH - 1)):
        was.append(_part_of(before.bytes, total.bytes, human_bytes, step))
        now.append(human_bytes(after.bytes))
    if not was:
        return None
    of = f" on {human_count(len(sample))} of {human_count(rows)} rows" if step > 1 else ""
    return f"{idea.what}: {' and '.join(was)}{of}; {idea.form} {', '.join(now)}: {idea.how}"


def _part_of(part: float, whole: float, human: Callable[[float], str], step: int) -> str:
    """``93 % of 2.1 s``; of a sample just what it takes."""
    if step > 1 or not whole:
        return human(part)
    return f"{min(1.0, part / whole):.0%}".replace("%", " %") + f" of {human(whole)}"


# -- the advisers ---------------------------------------------------------------------------------


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
    dtypes = {}
    if numbers is not None:
        dtypes[str(numbers)] = f"as {numbers}"
    elif str in held and _is_text(series, held, python_text):
        if importlib.util.find_spec("pyarrow"):
            dtypes["string[pyarrow]"] = "as Arrow strings"
        if series.nunique() * FEW <= len(series):
            dtypes["category"] = "as a category"
    kind = "str" if numbers is None else type(objects[0]).__name__
    what = f"{called} ({series.dtype}, {human_count(len(series))} {kind})"
    for dtype, form in dtypes.items():
        make = operator.methodcaller("astype", dtype)
        yield Idea(what, series, make, form, f"`{name}.astype({dtype!r})`")


def _is_text(series: Any, held: set[type], python_text: bool) -> bool:
    """Nothing but texts, and what stands for a missing one."""
    if held == {str} or python_text:
        return True
    return all(isinstance(v, str) for v in series.dropna())


def _sequence(value: Any, name: str) -> Iterator[Idea]:
    """Numbers, rows of numbers, dicts with the same keys, instances that have only numbers."""
    if type(value) not in (list, tuple) or len(value) < 2:
        return
    kinds = set(map(type, value))
    many = len(value) >= MANY
    dtype = _numbers_of(value) if many else None
    if dtype is not None:
        what = f"{name} ({_counted(value)})"
        yield Idea(what, value, lambda v: np.array(v, dtype), "as an array", f"`np.array({name})`")
    elif kinds in ({list}, {tuple}):
        yield from _matrix(value, name)
    elif many and kinds == {dict}:
        yield from _records(value, name)
    elif many and len(kinds) == 1:
        yield from _objects(value, name)


def _matrix(value: Any, name: str) -> Iterator[Idea]:
    rows, columns = len(value), len(value[0])
    if rows * columns < MANY or any(len(row) != columns for row in value):
        return
    if _numbers_of([cell for row in value for cell in row]) is not None:
        what = f"{name} ({human_count(rows)} rows of {human_count(columns)})"
        yield Idea(what, value, np.array, "as an array", f"`np.array({name})`")


def _objects(value: Any, name: str) -> Iterator[Idea]:
    names = _attributes(value[0])
    if not names or any(_numbers_of([getattr(v, a) for v in value]) is None for a in names):
        return
    first = f"{names[0]} = np.array([o.{names[0]} for o in {name}])"
    rest = f", and so for {', '.join(names[1:])}" if len(names) > 1 else ""
    yield Idea(
        f"{name} ({_counted(value)})", value,
        lambda v: {a: np.array([getattr(o, a) for o in v]) for a in names},
        "as one array per attribute", f"`{first}`{rest}",
    )  # fmt: skip


def _attributes(instance: Any) -> list[str]:
    """Of an instance of a class written in Python; empty if there is more to it than these."""
    if isinstance(instance, tuple | list | dict | set | str | np.ndarray | type):
        return []
    slots = (c.__dict__.get("__slots__", ()) for c in type(instance).__mro__)
    in_slots = [name for s in slots for name in ((s,) if isinstance(s, str) else s)]
    names = [*in_slots, *getattr(instance, "__dict__", {})]
    return [name for name in names if not name.startswith("__")]


def _records(value: Any, name: str) -> Iterator[Idea]:
    keys = list(value[0])
    if not keys or any(row.keys() != value[0].keys() for row in value):
        return
    if any(len({type(row[key]) for row in value}) != 1 for key in keys):
        return
    what = f"{name} ({human_count(len(value))} dicts with the same {len(keys)} keys)"
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        yield Idea(what, value, pandas.DataFrame, "as a DataFrame", f"`pd.DataFrame({name})`")
    elif all(_numbers_of([row[key] for row in value]) is not None for key in keys):
        how = f"`{{k: np.array([r[k] for r in {name}]) for k in {name}[0]}}`"
        yield Idea(
            what, value, lambda v: {k: np.array([r[k] for r in v]) for k in keys},
            "as one array per key", how,
        )  # fmt: skip


def _object_array(value: Any, name: str) -> Iterator[Idea]:
    if type(value) is not np.ndarray or value.dtype != object or value.size < MANY:
        return
    dtype = _numbers_of(value.ravel())
    if dtype is not None:
        what = f"{name} ({_counted(value.ravel())} as objects)"
        how = f"`{name}.astype({str(dtype)!r})`"
        yield Idea(what, value, operator.methodcaller("astype", dtype), f"as {dtype}", how)


def _captured(value: Any, name: str) -> Iterator[Idea]:
    """What a function takes along wherever it goes."""
    if not isinstance(value, FunctionType):
        return
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    captured = [("closes over", variable, cell.cell_contents) for variable, cell in cells]
    names = sorted(_names_in(value.__code__) & value.__globals__.keys())
    captured += [("has the global", variable, value.__globals__[variable]) for variable in names]
    for how, variable, held in captured:
        if isinstance(held, ModuleType | FunctionType | BuiltinFunctionType | type):
            continue
        yield Idea(
            f"{name} {how} `{variable}` ({describe(held)}), which travels each time it is exported",
            value, functools.partial(_without, variable=variable), "without it",
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
    _sequence,
    _object_array,
    _captured,
)
