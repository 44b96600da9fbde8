"""`python tests/benchmarks`: measure Workbench beside its peers and the machine's limits.

Prints tables; asserts nothing, because a machine that others use is no judge.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path

import rounds
from pools import Effort
from rows import NOTES, ROUND_TRIPS, ROWS
from table import Report, as_markdown


def main() -> None:
    """Parse, measure, print."""
    keys = list(dict.fromkeys(row.key for row in (*ROWS, *ROUND_TRIPS)))
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, values a tenth")
    parser.add_argument("--rounds", type=int, help="how many (default 5, quick 1)")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=keys, default=keys,
                        help=f"of {', '.join(keys)}")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all samples in a file")
    parser.add_argument("--cores", type=int, help="take so many of the machine's cores")
    options = parser.parse_args()

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    load, began = os.getloadavg()[0], time.monotonic()
    effort = Effort(0.2, 10) if options.quick else Effort()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as scratch:
        number = options.rounds or (1 if options.quick else 5)
        samples = rounds.run(options.only, number, effort, Path(scratch))
    machine = (
        f"{len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, Python "
        f"{platform.python_version()}, {time.strftime('%Y-%m-%d')}, load {load:.1f} at the start. "
        f"Medians of {number} round(s), in brackets the least and greatest; "
        f"{time.monotonic() - began:.0f} s."
    )
    if options.json:
        kept = {"machine": machine, "samples": samples}
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    tables = map(as_markdown, Report(samples, options.only).tables())
    print("\n" + "\n\n".join([*tables, " ".join([machine, *NOTES])]))


if __name__ == "__main__":
    main()
