"""Where a kernel's own memory is: `%workbench memory`, and what a MemoryError says."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel, Opens
from workbench.system.sizes import parse_bytes

HOLDERS = """
import features, gc, re, matplotlib, numpy as np, pandas as pd
matplotlib.use("agg")
import matplotlib.pyplot as plt
big = np.ones(25_000_000)
part = {"x": big[10:]}
names = [f"name number {i}" for i in range(1_000_000)]
df = pd.DataFrame({"a": np.arange(2_000_000), "f": np.random.rand(2_000_000)})
untouched = np.zeros(50_000_000)
features.load(5_000_000).sum()
plt.figure().gca().imshow(np.random.rand(2000, 2000)).figure.canvas.draw()
"""

SIZES = {
    "big: ndarray (also in part)": 200,
    "local in fails(), kept by the traceback of the last error: ndarray": 100,
    "names: list": 88,
    "df, Out[4]: DataFrame": 32,
    "Out[3]: ndarray": 48,
    "features.load: _lru_cache_wrapper": 40,
    "figure 1: Figure": 34,
}
"""MB of each."""


@pytest.fixture
def full(notebook: Opens, tmp_path: Path) -> Kernel:
    """A kernel with holders of known sizes."""
    module = "import functools, numpy\n@functools.lru_cache\ndef load(n): return numpy.ones(n)\n"
    (tmp_path / "features.py").write_text(module)
    kernel = notebook()
    begin = f"import sys\nsys.path.append({str(tmp_path)!r})\n%load_ext workbench"
    for cell in (begin, HOLDERS, "np.full(6_000_000, 2)", "df"):
        kernel.ok(cell)
    kernel.run("def fails():\n    local = np.ones(12_500_000)\n    1 / 0\nfails()")
    return kernel


def test_each_holder_is_named_with_its_size_and_the_line_that_lets_go(full: Kernel) -> None:
    (page,) = full.ok("%workbench memory").results("text/html")
    lines = [re.findall("<td.*?>(.*?)</td>", line) for line in page.split("<tr")[2:]]
    plain = [[html.unescape(re.sub("<.*?>|■", "", cell)).strip() for cell in row] for row in lines]
    rows = {what: (size.removeprefix("about "), cut) for what, size, cut in plain}
    total = parse_bytes(re.findall("in all (.*?):", page)[0])
    assert parse_bytes(rows["not explained"][0]) < 0.15 * total
    measure = "gc.collect(); print(re.search('Anonymous: +(.*) kB', open(SELF).read())[1])"
    full.ok("SELF = '/proc/self/smaps_rollup'; del part")
    for what, nbytes in SIZES.items():
        size, cut = rows[what]
        assert parse_bytes(size) == pytest.approx(nbytes * 10**6, rel=0.15), what
        before = int(full.ok(measure).text())
        full.ok(cut.replace(" and ", "\n"))
        freed = 1024 * (before - int(full.ok(measure).text()))
        assert freed == pytest.approx(nbytes * 10**6, rel=0.15), cut


def test_a_memory_error_says_what_would_help(full: Kernel) -> None:
    said = full.run("np.ones(10**12)").failure
    assert re.search("8 TB was asked for, and .* is left", said)
    rows = dict(re.findall(r"^(.*?) {2,}(?:about )?[\d.]+ [Mk]?B.*?  `(.*)`", said, re.M))
    assert rows["big: ndarray (also in part)"] == "del big"
    assert len(rows) == 5
    assert "`big = big.astype('float32')`" in said
    assert "only reserved" in said
