"""File systems of a process's own: small disks, a container's /dev/shm. Linux; root, or allowed."""

from __future__ import annotations

import ctypes
import os
import subprocess

_CLONE_NEWNS, _CLONE_NEWUSER = 0x0002_0000, 0x1000_0000


def private() -> None:
    """From now on what this process mounts is seen by it and its children alone.

    Raises
    ------
    OSError
        If the kernel doesn't let us.
    """
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) and libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "no mount namespace for us")
    if uid:
        maps = [("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")]
        for name, text in maps:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def tmpfs(path: str, size: str) -> None:
    """Mount a disk of that size there, for us alone. After `private`."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
