"""Results on disk: what they depend on, and that a torn one is none."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType

import pytest

from workbench.errors import SessionFileError
from workbench.result_cache.code import told_by_names
from workbench.result_cache.conditions import Conditions, LookedAt, installed, look_at
from workbench.result_cache.entries import ResultCache
from workbench.result_cache.fingerprints import code_facts
from workbench.result_cache.opened_files import OpenedFiles
from workbench.result_cache.outside import Outside, watched
from workbench.result_cache.records import ResultFacts
from workbench.serialization.packing import PackedValues

PACKED = PackedValues(b"stream", [], [], b"")
FACTS = ResultFacts(1.0, 2.0, Conditions(), ["the clock"], ["id"])


def code_of(text: str) -> CodeType:
    return compile(text, "<cell>", "exec")


@pytest.fixture
def cache(tmp_path: Path) -> ResultCache:
    return ResultCache(tmp_path / "cache", 1 << 20)


def test_each_changed_byte_is_seen_or_harmless(cache: ResultCache) -> None:
    """And what isn't whole is removed, so that the cell runs again."""
    cache.store("aa", FACTS, PACKED, [("stdout", b"x", "")])
    (file,) = cache.path.glob("*/*")
    whole = file.read_bytes()
    found = []
    for place in sorted(
        {*range(64), *range(64, len(whole), 7), *range(len(whole) - 900, len(whole))}
    ):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        stored = cache.find("aa")
        with contextlib.suppress(SessionFileError):
            found += [(s.facts, *s.read(s.new_ids(["id"]))) for s in [stored] if s is not None]
    assert 0 < len(found) < len(whole)
    assert all(each == (FACTS, PACKED, [("stdout", b"x", "")]) for each in found)


def test_those_used_least_recently_go(tmp_path: Path) -> None:
    ResultCache(tmp_path, 1).store("ee", FACTS, PACKED, [])
    cache = ResultCache(tmp_path, 3 * ResultCache(tmp_path, 1).clear().nbytes)
    for n, key in enumerate(("aa", "bb", "cc", "dd")):
        cache.store(key, FACTS, PACKED, [])
        (file,) = tmp_path.glob(f"{key}/*")
        os.utime(file, (n, n))
        if key == "cc":
            cache.use("aa")
    assert [key for key in ("aa", "bb", "cc", "dd") if cache.find(key)] == ["aa", "cc", "dd"]
    tmp_path.chmod(0o770)  # others can write
    assert (cache.find("aa"), cache.is_private()) == (None, False)
    (tmp_path / "aa" / ".ab.result.7").touch()  # its process was killed
    assert cache.clear().results == 4
    assert cache.usage() == (0, 0)


@pytest.mark.parametrize(
    "read",
    [
        lambda path: path.read_text(),
        lambda path: ctypes.CDLL(None).open(os.fsencode(path), os.O_RDONLY),
        lambda path: os.listdir(os.fsencode(path.parent)),
        lambda path: path.with_name("made").write_text("x"),
        lambda path: path.with_name("made").mkdir(),
    ],
    ids=["by Python", "by C", "its directory", "another one is written", "a directory is made"],
)
def test_what_was_read_has_to_be_the_same(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "sub" / "data.txt"
    file.parent.mkdir()
    file.write_text("one")
    os.utime(file, (1, 1))
    outside = Outside()
    outside.names([], str(tmp_path))
    with watched(outside):
        opened = read(file)
    if isinstance(opened, int) and opened > 1:
        os.close(opened)
    conditions, changed = outside.conditions([])
    assert (conditions.changed(), changed) == ([], [])
    os.utime(file, (2, 2))
    assert conditions.changed() == []  # its bytes are the same
    for each in [*file.parent.iterdir()]:
        each.rename(each.with_name(f"new {each.name}"))
    assert conditions.changed() != []


@pytest.mark.parametrize("is_there", [False, True])
def test_a_file_that_changes_while_it_is_used_is_told(is_there: bool, tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    if is_there:
        file.write_text("one")
    outside = Outside()
    outside.names([], str(tmp_path))
    with watched(outside), file.open("a") as log:
        log.write("two")
    assert outside.conditions([])[1] == [str(file)]


def test_what_threads_open_at_once_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, saved = Path(__file__), tmp_path / "nb.ipynb"
    other = one.parents[2] / "patience.py"
    saved.touch()

    def look(path: str) -> LookedAt | None:
        assert all(ThreadPoolExecutor(1).map(Path.read_text, [other] * (path == str(one))))
        return look_at(path)

    monkeypatch.setattr(f"{Outside.__module__}.look_at", look)
    outside = Outside()
    outside.names(["/"], str(tmp_path))
    with watched(outside), watched(Outside()) as alone:
        one.read_text()
        os.close(ctypes.CDLL(None).open(os.fsencode(saved), os.O_RDONLY))  # as Jupyter does
    assert (alone, outside.unchecked([])) == (False, [])
    assert sorted(outside.conditions([])[0].files) == ["/", str(other), str(one)]


def test_another_version_of_a_package_is_another_result() -> None:
    there = installed()
    assert Conditions(versions={"numpy": there["numpy"]}).changed() == []
    assert Conditions(versions={"numpy": "0.1", "none": "1"}).changed() == ["numpy", "none"]


def test_more_directories_than_can_be_watched_are_told(tmp_path: Path) -> None:
    for n in range(201):
        (tmp_path / str(n)).mkdir()
    with OpenedFiles([str(tmp_path)]) as opened:
        assert not opened.is_complete


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import time as t\nx = t.time()", {"the clock"}),
        ("from time import time\ntime()", {"the clock"}),
        ("def f():\n    return datetime.now()", {"the clock"}),
        ("import time\ntime.strptime(x)\ntime.localtime(0)\ndf.time", set()),
        ("os.environ[secrets.choice(x)]", {"environment variables", "random numbers"}),
        ("np.random.default_rng()", {"random numbers"}),
        ("np.random.default_rng(1)", set()),
    ],
)
def test_names_in_code_tell_what_is_unknown(text: str, told: set[str]) -> None:
    assert told_by_names([code_of(text)]) == told


def test_code_is_the_same_wherever_it_stands() -> None:
    one, other = (
        code_of("def f(x):\n    return x in {1, 2}"),
        code_of("\n\ndef f(x): return x in {1,2}"),
    )
    assert repr(code_facts(one)) == repr(code_facts(other))
    for text in ("def f(x):\n    return x in {1, 3}", "def f(x):\n    return x in {1.0, 2}"):
        assert repr(code_facts(one)) != repr(code_facts(code_of(text)))
