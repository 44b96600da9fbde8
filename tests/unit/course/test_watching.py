"""What is seen of the memory of a process and of those below it."""

from __future__ import annotations

import json
import subprocess
import sys

MEGABYTES = 60

SCRIPT = f"""
import json, os, subprocess, sys
from workbench.course.watching import below, watching

large = b"1" * {MEGABYTES * 1_000_000}
with watching() as own:
    held = bytearray(large)
    own.look()
    del held
code = "x = b'1' * {MEGABYTES * 1_000_000}; print(1, flush=True); input()"
with watching() as others:
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.readline()
        is_below = below(os.getpid()) == [process.pid]
        others.look()
        process.communicate(b"\\n")
looks = own.seconds == sorted(own.seconds) and len(own.seconds) == len(own.megabytes)
print(json.dumps([own.most, own.megabytes[0], looks, others.most, is_below]))
"""
"""In a process of its own: no other test's processes end while it looks."""
FILES = f"""
import os, subprocess, sys
from workbench.course.watching import watching

large = b"1" * {MEGABYTES * 1_000_000}
with watching() as file:
    fd = os.memfd_create("data")
    os.write(fd, large)
    file.look()
    written = file.megabytes[-1]
    code = f"import mmap; print(sum(mmap.mmap({{fd}}, 0)[::4096]), flush=True); input()"
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[fd])
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        process.stdout.readline()
        file.look()
        mapped = file.megabytes[-1]
        process.communicate(b"\\n")
print(written, mapped)
"""


def test_what_a_block_takes_and_starts_is_seen_less_what_was_there_before() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    own, at_first, looks, others, is_below = json.loads(done.stdout)
    assert 0.9 * MEGABYTES < own < 2 * MEGABYTES
    assert at_first < 0.5 * MEGABYTES
    assert 0.9 * MEGABYTES < others < 3 * MEGABYTES
    assert looks
    assert is_below


def test_what_is_written_to_shared_memory_counts_once_whoever_has_mapped_it() -> None:
    done = subprocess.run([sys.executable, "-c", FILES], capture_output=True, check=True)
    written, mapped = map(float, done.stdout.split())
    assert 0.9 * MEGABYTES < written < 1.5 * MEGABYTES
    assert mapped < 1.9 * MEGABYTES
