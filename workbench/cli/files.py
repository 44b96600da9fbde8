"""open: lists what a session file has, and runs none of its code. cache: cached results."""

from __future__ import annotations

from pathlib import Path

from workbench import config
from workbench.report import json
from workbench.report.cached import cleared_text, usage_text
from workbench.report.session_file import file_text, made_text
from workbench.result_cache.entries import ResultCache
from workbench.session_file.contents import SessionFile


def cache(clears: bool, as_json: bool) -> int:
    directory, limit = config.cache_directory(), config.load().cache_limit
    results = ResultCache(directory, limit)
    usage = results.clear() if clears else results.usage()
    if as_json:
        counts = {"results": usage.results, "bytes": usage.nbytes, "limit": limit}
        print(json.as_text(json.document("cache", **counts, directory=str(directory))))
    elif clears:
        print(cleared_text(*usage, str(directory)))
    else:
        print(usage_text(*usage, limit, str(directory)))
    return 0


def show(path: str, as_json: bool) -> int:
    file = SessionFile(Path(path))
    if as_json:
        print(json.as_text(json.of_file(path, made_text(file.made), file.entries)))
    else:
        print(file_text(path, file.made, file.entries))
    return 0
