"""How a cluster's process is asked: a line of JSON in, a line behind ``> `` out. No tests."""

from __future__ import annotations

import json
import sys
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
            _say(getattr(cluster, what)(*arguments))
    finally:
        cluster.close()


def _say(answer: Any) -> None:
    print("> " + json.dumps(answer), flush=True)
