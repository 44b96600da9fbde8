"""Machines and containers as the kernel's files show them. No tests."""

from __future__ import annotations

from pathlib import Path


def kernel_files(root: Path, files: dict[str, str]) -> Path:
    """A root directory with these files in it; 16 GiB of RAM."""
    for name, text in {"proc/meminfo": f"MemTotal: {16 * 1024 * 1024} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
