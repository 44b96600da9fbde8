"""How a cluster's process is asked: a line of JSON in, a line behind ``> `` out, or behind ``! ``
what went wrong, which doesn't end the cluster. No tests."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(make: Callable[[str], Any]) -> None:
    """Start what ``make`` makes of the directory that was named, say its address, do as told.

    The end of the input is the end.
    """
    cluster = make(sys.argv[1])
    try:
        _say(cluster.address)
        for line in sys.stdin:
            what, *arguments = json.loads(line)
            try:
                _say(getattr(cluster, what)(*arguments))
            except Exception:
                _say(traceback.format_exc(), "!")
    finally:
        cluster.close()


def _say(answer: Any, mark: str = ">") -> None:
    print(f"{mark} {json.dumps(answer)}", flush=True)
