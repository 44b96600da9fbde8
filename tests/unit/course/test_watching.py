"""What is seen of the memory of a process and of those below it."""

from __future__ import annotations

import json
import subprocess
import sys

MEGABYTES = 60

SCRIPT = f"""
import json, os, subprocess, sys
from workbench.course.watching import below, watching

def started(code, **more):
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", code + "; input()"], **pipes, **more)

large = b"1" * {MEGABYTES * 1_000_000}
with watching() as own:
    held = bytearray(large)
    own.look()
    del held
with watching() as others:
    with started("x = b'1' * {MEGABYTES * 1_000_000}; print(1, flush=True)") as process:
        process.stdout.readline()
        is_below = below(os.getpid()) == [process.pid]
        others.look()
        process.communicate(b"\\n")
with watching() as file:
    fd = os.memfd_create("data")
    os.write(fd, large)
    file.look()
    written = file.megabytes[-1]
    code = f"import mmap; print(sum(mmap.mmap({{fd}}, 0)[::4096]), flush=True)"
    with started(code, pass_fds=[fd]) as process:
        process.stdout.readline()
        file.look()
        mapped = file.megabytes[-1]
        process.communicate(b"\\n")
looks = own.seconds == sorted(own.seconds) and len(own.seconds) == len(own.megabytes)
found = [own.most, own.megabytes[0], looks, others.most, is_below, written, mapped]
print(json.dumps(found))
"""
"""In a process of its own: no other test's processes end while it looks."""


def test_what_a_block_takes_and_starts_is_seen_less_what_was_there_before() -> None:
    """What is written to shared memory counts once, whoever has mapped it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    own, at_first, looks, others, is_below, written, mapped = json.loads(done.stdout)
    assert 0.9 * MEGABYTES < own < 2 * MEGABYTES
    assert at_first < 0.5 * MEGABYTES
    assert 0.9 * MEGABYTES < others < 3 * MEGABYTES
    assert looks
    assert is_below
    assert 0.9 * MEGABYTES < written < 1.5 * MEGABYTES
    assert mapped < 1.9 * MEGABYTES
