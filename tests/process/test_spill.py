"""Objects on disk: more than memory holds, and every way in which a disk can fail."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pytest

import workbench as wb
from tests.leaks import descriptors, eventually
from tests.process.processes import Processes, data_in, most_granted
from tests.process.scripts import Script
from workbench.engine.base import Engine
from workbench.errors import ObjectLostError, SpillError, StoreFullError

pytestmark = pytest.mark.fresh_session


MB = 1_000_000
Bytes = npt.NDArray[np.uint8]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where objects go. Nobody ever sees a file there."""
    path = tmp_path / "spill"
    path.mkdir()
    return path


@pytest.fixture
def session(disk: Path) -> Engine:
    """Two workers, 64 MB of memory, and a disk."""
    return wb.init(workers=2, memory="64MB", spill_dir=disk)


def array(megabytes: float, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, int(megabytes * MB), np.uint8)


def digest(data: Bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def where(ref: wb.ObjectRef) -> str:
    return next(record.where for record in wb.snapshot().objects if record.id == ref.id)


def spill_files(process: psutil.Process, disk: Path) -> list[str]:
    """Descriptors of the process on files in that directory, as paths that can be opened."""
    found = descriptors(process.pid).items()
    return [f"/proc/{process.pid}/fd/{n}" for n, target in found if target.startswith(f"{disk}/")]


def mapped_from(disk: Path) -> bool:
    return str(disk) in Path("/proc/self/maps").read_text()


def test_three_times_what_memory_holds(disk: Path) -> None:
    """Put, read and passed to tasks; every byte is right, and memory stays bounded."""
    session = wb.init(workers=2, memory="16MB", spill_dir=disk)
    sums = {wb.put(data): digest(data) for data in (array(2, seed) for seed in range(24))}
    for ref, known in sums.items():
        assert digest(wb.get(ref)) == known
    task = wb.remote(digest)
    assert wb.get([task.remote(ref) for ref in sums]) == list(sums.values())
    assert session.snapshot().granted <= most_granted(16 * MB)
    assert session.snapshot().spilled >= (48 - 16) * MB
    assert os.listdir(disk) == [], "files without a name"
    shutil.rmtree(disk)
    assert [digest(wb.get(ref)) for ref in sums] == list(sums.values()), "they survive it"


def test_what_finds_no_room_goes_to_disk_at_once(disk: Path) -> None:
    session = wb.init(workers=1, memory="16MB", spill_dir=disk)
    large = array(20, 1)
    ref = wb.put({"x": large, "n": 3})
    assert digest(wb.get(ref)["x"]) == digest(large)
    twice = wb.remote(lambda value: np.concatenate([value["x"], value["x"]])).remote(ref)
    assert digest(wb.get(twice)[: large.size]) == digest(large)
    parts = [b"x" * MB for _ in range(20)]  # not in buffers, but in the stream itself
    in_band = wb.put(parts)
    assert wb.get(in_band) == parts
    assert [where(each) for each in (ref, twice, in_band)] == ["disk"] * 3
    shown = wb.get(wb.put(array(12, 2)))  # it can't make room
    ref, twice = wb.put(array(12, 3)), wb.remote(array).remote(12, 4)
    assert [digest(wb.get(each)) for each in (ref, twice)] == [digest(array(12, i)) for i in (3, 4)]
    del ref, twice, in_band, shown
    assert eventually(lambda: session.snapshot().spilled == 0)
    assert not spill_files(psutil.Process(), disk)


def test_reading_from_disk_makes_no_copy_and_brings_it_back(session: Engine, disk: Path) -> None:
    shown = [wb.get(wb.put(array(10, seed))) for seed in range(5)]  # so that nothing comes back
    ref = wb.put(array(8, 99))
    wb.spill(ref)
    wb.spill(ref)  # it is there already
    assert where(ref) == "disk"
    first, second = wb.get(ref), wb.get(ref)
    assert np.shares_memory(first, second)
    assert mapped_from(disk)
    assert digest(first) == digest(array(8, 99))
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    assert where(ref) == "disk"
    del second
    shown.clear()
    assert wb.get(wb.remote(digest).remote(ref)) == digest(first)
    assert eventually(lambda: where(ref) == "memory")
    assert digest(first) == digest(array(8, 99)), "the view stays where it was"
    assert digest(wb.get(ref)) == digest(first)
    del first
    assert eventually(lambda: session.snapshot().spilled == 0)
    assert eventually(lambda: not mapped_from(disk)), "nothing lies in that file any more"


def test_a_directory_that_is_gone(session: Engine, disk: Path) -> None:
    refs = [wb.put(array(5, seed)) for seed in range(10)]
    session.snapshot()
    disk.rmdir()
    # Nothing of the file in which several were to lie side by side was ever made.
    with pytest.raises(StoreFullError, match="Nothing could be moved to disk: No such file"):
        wb.put(array(40, 99))
    with pytest.raises(SpillError, match=f"No such file or directory .*{disk}"):
        wb.spill(refs[0])
    assert "No such file" in session.snapshot().trouble
    assert [digest(wb.get(ref)) for ref in refs] == [digest(array(5, s)) for s in range(10)]
    disk.mkdir()
    more = array(20, 9)

    def has_room() -> bool:
        with contextlib.suppress(StoreFullError):
            wb.put(more)
            return True
        return False

    assert eventually(has_room), "tried again after a while"


@pytest.mark.parametrize("damage", ["altered", "truncated"])
def test_damage_harms_one(session: Engine, disk: Path, processes: Processes, damage: str) -> None:
    refs = [wb.put(array(8, seed)) for seed in range(3)]
    for ref in refs:
        wb.spill(ref)
    path, *_ = spill_files(processes.server(), disk)  # what takes the digest may have another
    with open(path, "r+b", buffering=0) as file:
        if damage == "altered":
            os.pwrite(file.fileno(), b"\0" * 100, 2 * 8 * MB + 3 * MB)
        else:
            file.truncate(2 * 8 * MB + 3 * MB)  # a worker maps the file only after this
    shown = [wb.get(ref) for ref in refs[:2]]
    assert [digest(data) for data in shown] == [digest(array(8, seed)) for seed in range(2)]
    why = "checksum" if damage == "altered" else "shorter"
    with pytest.raises(ObjectLostError, match=rf"8 MB were moved to disk.*{why}.*Put it again"):
        wb.get(refs[2])
    with pytest.raises(ObjectLostError, match=why):
        wb.get(wb.remote(digest).remote(refs[2]))
    wb.free(refs[2])
    # To trust the bytes at one place is not to trust those at the next in the same file.
    again = wb.put(array(8, 2))
    wb.spill(again)
    assert digest(wb.get(again)) == digest(array(8, 2))
    wb.pin(again)
    assert eventually(lambda: where(again) == "memory")
    wb.unpin(again)
    wb.spill(again)
    with open(path, "r+b", buffering=0) as file:
        *_, (start, stop) = data_in(file.fileno())
        os.pwrite(file.fileno(), b"altered", (start + stop) // 2)
    with pytest.raises(ObjectLostError, match="checksum"):
        wb.get(again)
    del shown


@pytest.mark.extended
def test_a_full_disk(runtime: str, tmp_path: Path) -> None:
    """Two objects fit; the third stays where it is, the errors say why, and nothing is lost."""
    small = f"mount -t tmpfs -o size=24m tmpfs '{tmp_path}' && exec \"$@\""
    root = [] if os.getuid() == 0 else ["--map-root-user"]
    text = """
        import numpy as np

        wb.init(workers=1, memory="64MB", spill_dir=sys.argv[1])
        refs = [wb.put(np.full(10_000_000, i, np.uint8)) for i in range(5)]

        def refused(act):
            try:
                act()
            except Exception as error:
                say(type(error).__name__, str(error).replace(chr(10), " "))

        wb.spill(refs[0])
        wb.spill(refs[1])
        refused(lambda: wb.spill(refs[2]))
        refused(lambda: wb.put(np.ones(40_000_000, np.uint8)))
        say([record.where for record in wb.snapshot().objects].count("disk"))
        say(all((wb.get(ref) == i).all() for i, ref in enumerate(refs)))
        wb.shutdown()
        """
    command = ["unshare", "--mount", *root, "sh", "-c", small, "sh"]
    with contextlib.closing(Script(text, str(tmp_path), before=command)) as full:
        told = [full.line() for _ in range(4)]
        assert full.wait() == 0
    assert re.search(r"SpillError .*10 MB are to be written, and .* are free", told[0])
    assert re.search(r"StoreFullError .*Nothing could be moved to disk: 10 MB are", told[1])
    assert told[2:] == ["2", "True"]


def test_nothing_stays_on_disk(disk: Path, processes: Processes) -> None:
    """While the session lives, the files are its server's alone; with it, they go."""
    wb.init(workers=0, memory="16MB", spill_dir=disk)
    refs = [wb.put(array(5, seed)) for seed in range(4)]
    server = processes.server()
    assert spill_files(server, disk)
    refs.clear()
    assert eventually(lambda: not spill_files(server, disk)), "empty, and so discarded"
    refs = [wb.put(array(5, seed)) for seed in range(4)]
    server.send_signal(signal.SIGKILL)
    assert processes.gone()
    wb.shutdown()
    wb.init(workers=0)  # the next start of any session sweeps what the killed one left
    wb.shutdown()
    assert os.listdir(disk) == []
    del refs
    assert not mapped_from(disk)
