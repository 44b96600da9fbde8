"""The format of a session file: blocks of bytes, each at a page, and an index of them in JSON.

=========  ===================================================================================
0          `MAGIC`, which ends with the version of the format
16         where the index begins, its length, its checksum: three little-endian 64-bit numbers
4096       the blocks, each at a multiple of 4096
then       the index
=========  ===================================================================================

Knows bytes only; `contents` says what they are. Whoever made a file may be hostile: nothing is
believed that wasn't checked, and no code is run.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from workbench.errors import SessionFileError

MAGIC = b"\x93WORKBENCH FILE\x01"

PAGE = 4096
"""Blocks begin at multiples of this: they can be mapped."""

PIECE = 8 << 20
"""Bytes written or summed at once."""

MOST_INDEX = 64 << 20
"""Bytes of an index that is read."""

HEAD = struct.Struct("<16sQQQ")

Bytes = npt.NDArray[np.uint8]
Block = list[int]
"""Of a block, as the index has it: where it begins, its length, its xxh3 checksum, and its length
when it isn't compressed, or 0 if it isn't anyway."""


class FileWriter:
    """Writes a file beside its place, and puts it there once it is whole."""

    def __init__(self, path: Path, level: int = 0) -> None:
        self._path = path
        self._unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        self._file: BinaryIO = self._unfinished.open("wb", buffering=0)
        self._at = PAGE
        self._level = level

    def add(self, data: Any) -> Block:
        """Write contiguous bytes as a block; return what the index says of it."""
        view = memoryview(data).cast("B")
        plain = 0
        if self._level and view.nbytes:
            packed = _zstd().ZstdCompressor(level=self._level).compress(view)
            view, plain = memoryview(packed), view.nbytes
        begin, self._at = self._at, -(-(self._at + view.nbytes) // PAGE) * PAGE
        return [begin, view.nbytes, self._write(begin, view), plain]

    def _write(self, begin: int, view: memoryview) -> int:
        """Write bytes at a place; return their checksum."""
        checksum = xxhash.xxh3_64()
        self._file.seek(begin)
        for start in range(0, view.nbytes, PIECE):
            piece = view[start : start + PIECE]
            checksum.update(piece)
            self._write_all(piece)
        return checksum.intdigest()

    def _write_all(self, piece: memoryview) -> None:
        while True:
            piece = piece[self._file.write(piece) :]
            if not piece:
                return

    def finish(self, index: dict[str, Any]) -> int:
        """Write the index, and put the file in its place; return its length in bytes."""
        text = json.dumps(index, separators=(",", ":")).encode()
        checksum = self._write(self._at, memoryview(text))
        self._file.seek(0)
        self._file.write(HEAD.pack(MAGIC, self._at, len(text), checksum))
        os.fsync(self._file.fileno())
        self._file.close()
        self._unfinished.replace(self._path)
        return self._at + len(text)

    def abandon(self) -> None:
        """Remove what was written, unless it is in its place."""
        self._file.close()
        with contextlib.suppress(FileNotFoundError):
            self._unfinished.unlink()


class FileReader:
    """A file that was checked as far as its index goes. Blocks are checked when they are read.

    Raises
    ------
    SessionFileError
        If it is no such file, of a later version, torn, or changed.
    OSError
        If it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(HEAD.size)
            if len(head) < HEAD.size or head[: len(MAGIC) - 1] != MAGIC[:-1]:
                raise SessionFileError(f"{path} is no file that `%workbench save` has made.")
            magic, begin, length, checksum = HEAD.unpack(head)
            if magic != MAGIC:
                raise SessionFileError(
                    f"{path} has version {magic[-1]} of the format, and this Workbench reads "
                    f"version {MAGIC[-1]}. Install a newer one."
                )
            if length > MOST_INDEX or not PAGE <= begin <= size - length or begin + length != size:
                raise self.damaged("it isn't as long as it says")
            file.seek(begin)
            text = file.read(length)
            if xxhash.xxh3_64_intdigest(text) != checksum:
                raise self.damaged("its index was changed")
            self._map = mmap.mmap(
                file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
            )
        self._size = begin
        self.index = self._parsed(text)

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            index = json.loads(text)
        except (ValueError, RecursionError):
            raise self.damaged("its index can't be read") from None
        if not isinstance(index, dict):
            raise self.damaged("its index isn't one")
        return index

    def damaged(self, why: str) -> SessionFileError:
        """Return the error of a file that isn't as it was made."""
        return SessionFileError(f"{self.path} is damaged: {why}. Nothing of it was opened.")

    def block(self, block: Any, checked: bool = True) -> Bytes:
        """Return the bytes of a block: private memory, of which the file has the pages that aren't
        written. ``checked``: compare its checksum, which reads all."""
        if not (isinstance(block, list) and len(block) == 4 and all(map(_is_size, block))):
            raise self.damaged("its index isn't one")
        begin, length, checksum, plain = block
        if begin < PAGE or begin % PAGE or begin + length > self._size:
            raise self.damaged("a part lies outside of it")
        found: Bytes = np.frombuffer(self._map, np.uint8, length, begin)
        if (checked or plain) and _sum(found) != checksum:
            raise self.damaged("a part of it was changed")
        if plain:
            return self._decompressed(found, plain)
        return found

    def _decompressed(self, packed: Bytes, plain: int) -> Bytes:
        """Return so many bytes. SessionFileError if there are more or fewer, or it is no such
        data."""
        library = _zstd()
        try:
            if library.frame_content_size(packed.data) == plain:
                found = library.ZstdDecompressor().decompress(packed.data, plain)
                return np.frombuffer(bytearray(found), np.uint8)
        except library.ZstdError:
            pass
        raise self.damaged("a part of it can't be decompressed")


def _sum(data: Bytes) -> int:
    checksum = xxhash.xxh3_64()
    for start in range(0, data.nbytes, PIECE):
        checksum.update(data[start : start + PIECE].data)
    return checksum.intdigest()


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise SessionFileError(
            "Compressed session files need the package zstandard: `pip install zstandard`."
        ) from None
    return zstandard
