"""Lines of `workbench run` in a terminal."""

from __future__ import annotations

from workbench.report.markup import width_of
from workbench.report.notebook_run import fitted


def test_a_line_is_cut_at_a_terminals_width() -> None:
    assert fitted("a\tline", 80) == "a line"
    for columns in range(20):
        assert width_of(fitted("x = '宽字符' # more text", columns)) in (columns - 1, columns)
    assert not fitted("x", -1)
