"""Where a kernel's own memory is: `%workbench memory`, and what a MemoryError says."""

from __future__ import annotations

import html
import re

import pytest

from tests.kernel.conftest import Opens
from workbench.system.sizes import parse_bytes

HOLDERS = """import functools, gc, re, sys, types
import matplotlib.pyplot as plt, numpy as np, pandas as pd, polars as pl
plt.switch_backend("agg")
features = sys.modules["features"] = types.ModuleType("features")
features.load = functools.lru_cache(np.ones)
features.load(5_000_000)
big, untouched = np.ones(25_000_000), np.zeros(50_000_000)
names, part = [f"name number {i}" for i in range(1_000_000)], {"x": big[10:]}
df = pd.DataFrame({"a": np.arange(2_000_000), "f": np.random.rand(2_000_000)})
fast = pl.DataFrame({"n": np.arange(4_000_000)})
plt.figure().gca().imshow(np.random.rand(2000, 2000)).figure.canvas.draw()"""

FAILS = """def fails():
    local = np.ones(12_500_000)
    return np.ones(10**12)
fails()"""

MEGABYTES = {
    "big: ndarray (also in part)": 200,
    "local in fails(), kept by the traceback of the last error: ndarray": 100,
    "names: list": 88,
    "df, Out[4]: DataFrame": 32,
    "Out[3]: ndarray": 48,
    "features.load: _lru_cache_wrapper": 40,
    "figure 1: Figure": 34,
    "fast: DataFrame": 32,
}


@pytest.mark.extended
def test_holders_are_named_with_their_sizes_and_lines_that_free_them(notebook: Opens) -> None:
    kernel = notebook()
    for cell in ("%load_ext workbench", HOLDERS, "np.full(6_000_000, 2)", "df"):
        kernel.ok(cell)
    said = kernel.run(FAILS).failure
    assert re.search("8 TB was asked for, and .* is left", said)
    assert re.search(r" of 400 MB  untouched: .*: `del untouched`\n.* big: .*: `del big`\n", said)
    assert "`big = big.astype('float32')`" in said
    (page,) = kernel.ok("%workbench memory").results("text/html")
    lines = [re.findall("<td.*?>(.*?)</td>", line) for line in page.split("<tr")[2:]]
    plain = [[html.unescape(re.sub("<.*?>|■", "", cell)).strip() for cell in row] for row in lines]
    rows = {
        what: (parse_bytes(re.sub("about | of .*", "", size)), cut) for what, size, cut in plain
    }
    assert rows.get("not explained", (0, ""))[0] < 0.15 * parse_bytes(
        re.findall("in all (.*?):", page)[0]
    )
    measure = "gc.collect(); print(re.search('Anonymous: +(.*) kB', open(SELF).read())[1])"
    kernel.ok("SELF = '/proc/self/smaps_rollup'; del part")
    for what, megabytes in MEGABYTES.items():
        before = int(kernel.ok(measure).text())
        kernel.ok(rows[what][1].replace(" and ", "\n"))
        freed = 1024 * (before - int(kernel.ok(measure).text()))
        assert (rows[what][0], freed) == (pytest.approx(megabytes * 10**6, rel=0.15),) * 2, what
