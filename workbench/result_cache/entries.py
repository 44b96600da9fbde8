"""The results on disk: files named by their keys, in the user's cache directory, up to a limit."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from workbench.errors import SessionFileError
from workbench.result_cache.records import ResultFacts, Shown
from workbench.serialization.comparison import as_bytes
from workbench.serialization.packing import PackedValues
from workbench.session_file.layout import FileReader, FileWriter

SUFFIX = ".result"


class _Index(msgspec.Struct):
    facts: ResultFacts
    stream: list[int]
    apart: list[int]
    buffers: list[list[int]]
    shown: list[int]


@dataclass(frozen=True)
class StoredResult:
    """A stored result, looked at as far as its index."""

    facts: ResultFacts
    _reader: FileReader
    _index: _Index

    def read(self, new_ids: Mapping[str, str]) -> tuple[PackedValues, list[Shown]]:
        """Return the values, and what was shown, with the `new_ids` of classes.

        SessionFileError if the file is damaged.
        """
        read, index = self._reader.block, self._index
        buffers: list[Any] = [read(each) for each in index.buffers]
        stream, apart = (read(each).tobytes() for each in (index.stream, index.apart))
        shown = msgspec.msgpack.decode(read(index.shown).tobytes(), type=list[Shown])
        return PackedValues(stream, buffers, [], apart).with_class_ids(new_ids), shown

    def new_ids(self, class_ids: Iterable[str]) -> Mapping[str, str]:
        """Return ids of classes by those of then: of those in the inputs, which are ``class_ids``
        now; the run's own classes are new ones, as after a run."""
        known = zip(self.facts.class_ids, class_ids, strict=False)
        return defaultdict(lambda: uuid.uuid4().hex, known)


class Usage(NamedTuple):
    results: int
    nbytes: int


@dataclass(frozen=True)
class ResultCache:
    """A directory of results, shared by all sessions of a user.

    Parameters
    ----------
    path : Path
        The directory.
    limit : int
        Bytes that the results may take; those used least recently go.
    """

    path: Path
    limit: int

    def find(self, key: str) -> StoredResult | None:
        """Return the result of that key, if there is one. A damaged one is removed."""
        if not self.is_private():
            return None
        file = self._file(key)
        try:
            reader = FileReader(file)
            index = msgspec.convert(reader.index, _Index)
        except OSError:
            return None
        except (SessionFileError, msgspec.ValidationError):
            self.remove(key)
            return None
        return StoredResult(index.facts, reader, index)

    def use(self, key: str) -> None:
        """Note that a result was used."""
        with contextlib.suppress(OSError):
            os.utime(self._file(key))

    def store(self, key: str, facts: ResultFacts, packed: PackedValues, shown: list[Shown]) -> None:
        """Store a result in place of the one that is there; remove old ones beyond the limit.

        OSError if it can't be written.
        """
        file = self._file(key)
        for directory in (self.path, file.parent):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        writer = FileWriter(file)
        try:
            index = _Index(
                facts,
                writer.add(packed.stream),
                writer.add(packed.apart),
                [writer.add(as_bytes(each)) for each in packed.buffers],
                writer.add(msgspec.msgpack.encode(shown)),
            )
            nbytes = writer.finish(msgspec.to_builtins(index))
        except BaseException:
            writer.abandon()
            raise
        # Looking at 10 000 files takes 0.1 s: after each 32nd small one.
        if nbytes > self.limit // 1000 or int(key[:2], 16) % 32 == 0:
            self._prune(file)

    def is_private(self) -> bool:
        """True if only this user can write here: who can, can run code as the user."""
        with contextlib.suppress(OSError):
            found = self.path.stat()
            return found.st_uid == os.geteuid() and not found.st_mode & 0o022
        return True

    def remove(self, key: str) -> None:
        with contextlib.suppress(OSError):
            self._file(key).unlink()

    def usage(self) -> Usage:
        sizes = [size for _, size, _ in self._files()]
        return Usage(len(sizes), sum(sizes))

    def clear(self) -> Usage:
        """Remove all results; return what they took."""
        usage = self.usage()
        for _, _, file in self._files():
            with contextlib.suppress(OSError):
                file.unlink()
        return usage

    def _prune(self, newest: Path) -> None:
        files = sorted(self._files())
        too_many = sum(size for _, size, _ in files) - self.limit
        for _, size, file in files:
            if too_many <= 0:
                return
            if file != newest:
                with contextlib.suppress(OSError):
                    file.unlink()
                    too_many -= size

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield when each result was used, its bytes on disk, its file; unfinished ones, too."""
        for file in self.path.glob(f"*/*{SUFFIX}*"):
            with contextlib.suppress(OSError):
                found = file.stat()
                yield found.st_mtime, found.st_blocks * 512, file

    def _file(self, key: str) -> Path:
        return self.path / key[:2] / f"{key}{SUFFIX}"
