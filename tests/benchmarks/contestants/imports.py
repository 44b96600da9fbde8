"""How long an import takes in a fresh interpreter, whose own start isn't counted."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Collection

from pools import Effort, Sample

IMPORTS = {
    "import_numpy": "numpy",
    "import_workbench": "workbench",
    # what its first use loads
    "import_workbench_all": "workbench.api.functions, workbench.engines.local",
}

_CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def measure(rows: Collection[str], effort: Effort) -> Sample:
    samples: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(5):
        for name, modules in IMPORTS.items():
            command = [sys.executable, "-c", _CODE.format(modules)]
            output = subprocess.run(command, check=True, capture_output=True).stdout
            samples[name].append(float(output))
    return {name: statistics.median(seconds) for name, seconds in samples.items()}
