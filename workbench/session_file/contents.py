"""What a session file has: variables, each as an array, an Arrow table, a value in JSON, or in a
pickle. Opening arrays, tables and values runs no code."""

from __future__ import annotations

import getpass
import importlib
import platform
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from workbench.checkpoints.groups import look, look_at_most, reason
from workbench.engine.base import Engine
from workbench.engine.queries import Lookup, Names
from workbench.errors import SessionFileError
from workbench.expressions import describe
from workbench.serialization.arrays import Array
from workbench.serialization.codec import Where
from workbench.serialization.comparison import as_bytes
from workbench.serialization.object_state import is_array
from workbench.serialization.packing import PackedValues
from workbench.serialization.shared_memory import bounds, stretches
from workbench.session_file.layout import FileReader, FileWriter

CHECKED = 64 << 20
"""Bytes of an array up to which its checksum is compared when it is opened: some 4 ms."""

LEVEL = 10
"""Level of Zstandard: the file is made once, and downloaded often."""

MOST_LETTERS = 1000
"""Characters of a value that is in the index."""

_JSON = frozenset({bool, int, float, str, type(None)})

_WHERE = Where("a session file", "here")


@dataclass(frozen=True)
class Saved:
    """What became of `save`: bytes of the file, the variables in it, and those that can't be
    stored, with the reasons."""

    nbytes: int
    names: list[str]
    lost: dict[str, str]


@dataclass(frozen=True)
class FileEntry:
    """Variables of a file that are read together. ``kind``: array, arrow, value, module, pickle.
    ``types``: their types, in words."""

    kind: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    nbytes: int
    record: Mapping[str, Any] = field(repr=False)

    @property
    def runs_code(self) -> bool:
        """True if opening it runs code that the file or its maker has chosen."""
        return self.kind in ("pickle", "module")


def save(
    path: Path, values: Mapping[str, Any], namespace: dict[str, Any], engine: Engine, level: int
) -> Saved:
    """Write variables to a file; replace the one that is there once it is whole.

    Parameters
    ----------
    path : Path
        The file.
    values : mapping
        The variables.
    namespace : dict
        The globals of their functions: these look them up where the file is opened.
    engine : Engine
        The session, for its serializers.
    level : int
        The compression level of Zstandard; 0: none, so that the file can be mapped.

    Raises
    ------
    SessionFileError
        If it can't be written: then the file that was there is as it was.
    """
    arrays, others, lost = _sorted(values, namespace, engine)
    target = path.expanduser()
    if not target.name or target.is_dir():
        raise SessionFileError(f"{path} is a directory: name a file in it.")
    with _or_says_why(path, "written"):
        writer = FileWriter(target, level)
        try:
            entries = [*_written(writer, arrays, others, namespace, engine)]
            nbytes = writer.finish({"made": _made(), "entries": entries})
        except BaseException:
            writer.abandon()
            raise
    return Saved(nbytes, [*arrays, *others], lost)


@contextmanager
def _or_says_why(path: Path, what: str) -> Iterator[None]:
    """Have the system's errors say that the file can't be read, or can't be written, and why."""
    try:
        yield
    except OSError as error:
        raise SessionFileError(f"{path} can't be {what}: {error.strerror or error}.") from None


def named_objects(engine: Engine, taken: Container[str]) -> dict[str, Any]:
    """Return the session's objects with names that a variable can have, but for those ``taken``."""
    names = [name for name in engine.ask(Names()) if name.isidentifier() and name not in taken]
    refs = {name: ref for name in names if (ref := engine.ask(Lookup(name))) is not None}
    return dict(zip(refs, engine.get([*refs.values()], None, False), strict=True))


def _written(
    writer: FileWriter,
    arrays: Mapping[str, Array],
    others: Mapping[str, Any],
    namespace: dict[str, Any],
    engine: Engine,
) -> Iterator[dict[str, Any]]:
    """Write variables; yield what the index says of them."""
    for name, array in arrays.items():
        yield _array(writer, name, array)
    pickled: dict[str, Any] = {}
    for name, value in others.items():
        entry = _without_code(writer, name, value)
        if entry is None:
            pickled[name] = value
        else:
            yield entry
    if pickled:
        packed = look(engine, pickled, namespace, {}).packed
        assert packed is not None
        yield {
            "kind": "pickle",
            "names": [*pickled],
            "types": [describe(value) for value in pickled.values()],
            "stream": writer.add(packed.stream),
            "buffers": [writer.add(as_bytes(each)) for each in packed.buffers],
        }


def _sorted(
    values: Mapping[str, Any], namespace: dict[str, Any], engine: Engine
) -> tuple[dict[str, Array], dict[str, Any], dict[str, str]]:
    """Return arrays that share memory with nothing else, other variables, and those that can't be
    stored, with the reasons."""
    arrays = {n: v for n, v in values.items() if is_array(v)}
    others = {n: v for n, v in values.items() if n not in arrays}
    seen, failed = look_at_most(engine, others, namespace, {})
    others = {name: value for name, value in others.items() if name not in failed}
    links, used = (frozenset(), []) if seen is None else (seen.links, seen.spans)
    spans = [(*bounds(array), name) for name, array in arrays.items()]
    groups = [group for *_, group in stretches(spans + [(*span, "") for span in used])]
    shared = {name for group in groups if len(group) > 1 for name in group if name}
    shared |= {name for name, array in arrays.items() if id(array) in links}
    others |= {name: arrays.pop(name) for name in [*arrays] if name in shared}
    return arrays, others, {name: reason(error) for name, error in failed.items()}


def _array(writer: FileWriter, name: str, array: Array) -> dict[str, Any]:
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    return {
        "kind": "array",
        "names": [name],
        "types": [describe(array)],
        "dtype": np.lib.format.dtype_to_descr(array.dtype),
        "shape": array.shape,
        "order": order,
        "data": writer.add(as_bytes(array.T if order == "F" else array)),
    }


def _without_code(writer: FileWriter, name: str, value: Any) -> dict[str, Any] | None:
    """Return the entry of a variable that needs no pickle; None if it needs one."""
    entry = {"names": [name], "types": [describe(value)]}
    if type(value) in _JSON and len(repr(value)) <= MOST_LETTERS:
        return {"kind": "value", **entry, "value": value}
    if type(value) is ModuleType:
        return {"kind": "module", **entry, "value": value.__name__}
    if type(value).__module__ == "pyarrow.lib" and type(value).__name__ == "Table":
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as stream:
            stream.write_table(value)
        return {"kind": "arrow", **entry, "data": writer.add(sink.getvalue())}
    return None


def _made() -> dict[str, Any]:
    return {
        "by": getpass.getuser(),
        "on": platform.node(),
        "when": time.time(),
        "python": platform.python_version(),
        "workbench": version("ipyworkbench"),
    }


class SessionFile:
    """A file, to look into and to open. SessionFileError if it is none that can be read."""

    def __init__(self, path: Path) -> None:
        with _or_says_why(path, "read"):
            self._reader = FileReader(path.expanduser())
        index = self._reader.index
        made, entries = index.get("made"), index.get("entries")
        if not isinstance(made, dict) or not isinstance(entries, list):
            raise self._reader.damaged("its index isn't one")
        self.made: dict[str, Any] = made
        self.entries = [self._entry(each) for each in entries]

    def _entry(self, record: Any) -> FileEntry:
        try:
            names, types = tuple(record["names"]), tuple(record["types"])
            nbytes = sum(block[3] or block[1] for block in _blocks(record))
            good = all(type(text) is str for text in (record["kind"], *names, *types))
        except (TypeError, KeyError, IndexError, AttributeError):
            good, nbytes = False, 0
        if not good or len(names) != len(types) or not all(map(_is_variable, names)):
            raise self._reader.damaged("its index isn't one")
        return FileEntry(record["kind"], names, types, nbytes, record)

    def open(
        self, namespace: dict[str, Any], trusted: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Build the variables; return them, and why others couldn't be built.

        Parameters
        ----------
        namespace : dict
            The globals that functions get.
        trusted : bool
            True: also what `FileEntry.runs_code`.

        Raises
        ------
        SessionFileError
            If a part is damaged; then nothing is returned.
        """
        values: dict[str, Any] = {}
        failed: dict[str, str] = {}
        for entry in self.entries:
            if entry.runs_code and not trusted:
                continue
            try:
                values |= self._opened(entry, namespace)
            except SessionFileError:
                raise
            except Exception as error:
                why = f"{type(error).__name__}: {error}".partition("\n")[0]
                failed |= dict.fromkeys(entry.names, why)
        return values, failed

    def _opened(self, entry: FileEntry, namespace: dict[str, Any]) -> dict[str, Any]:
        record, (name, *_) = entry.record, entry.names
        match entry.kind:
            case "value" if type(record.get("value")) in _JSON:
                return {name: record["value"]}
            case "module" if type(record.get("value")) is str:
                return {name: importlib.import_module(record["value"])}
            case "array":
                return {name: self._array(record)}
            case "arrow":
                import pyarrow as pa

                data = pa.py_buffer(self._reader.block(record.get("data")))
                return {name: pa.ipc.open_stream(data).read_all()}
            case "pickle":
                stream = self._reader.block(record.get("stream")).tobytes()
                buffers = [self._reader.block(each) for each in record.get("buffers", ())]
                packed = PackedValues(stream, buffers, [])
                values: dict[str, Any] = packed.open(_WHERE, namespace=namespace)[0]
                return {name: values[name] for name in entry.names}
        raise self._reader.damaged("its index isn't one")

    def _array(self, record: Mapping[str, Any]) -> Array:
        try:
            dtype = np.lib.format.descr_to_dtype(_as_descr(record["dtype"]))
            shape = tuple(map(int, record["shape"]))
            order: Literal["C", "F"] = "F" if record["order"] == "F" else "C"
            size = dtype.itemsize
            for length in shape:
                size *= length
            good = not dtype.hasobject and min(shape, default=0) >= 0
        except (TypeError, KeyError, ValueError, SyntaxError, OverflowError):
            good = False
        if not good or len(shape) > 64:
            raise self._reader.damaged("its index isn't one")
        data = self._reader.block(record.get("data"), checked=size <= CHECKED)
        if data.nbytes != size:
            raise self._reader.damaged("a part isn't as long as it says")
        found: Array = np.ndarray(shape, dtype, data, order=order)
        return found

    def check(self) -> None:
        """Compare all checksums. SessionFileError if one is wrong."""
        for entry in self.entries:
            for block in _blocks(entry.record):
                self._reader.block(block)


def _blocks(record: Mapping[str, Any]) -> list[Any]:
    """Return the blocks of an entry; raises what a record of another form does."""
    found = [record[key] for key in ("data", "stream") if key in record]
    return found + list(record.get("buffers", ()))


def _is_variable(name: str) -> bool:
    return name.isidentifier() and not name.startswith("__")


def _as_descr(value: Any) -> Any:
    """Return what JSON made of a description of a dtype as numpy wants it: tuples in lists."""
    if isinstance(value, list):
        return [tuple(_field(part) for part in each) for each in value]
    return value


def _field(part: Any) -> Any:
    if isinstance(part, list) and all(type(each) is int for each in part):
        return tuple(part)
    return _as_descr(part) if isinstance(part, list) and part and type(part[0]) is list else part
