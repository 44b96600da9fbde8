"""Plots of a real session, in a process of its own: matplotlib keeps the fonts' files open."""

from __future__ import annotations

import json

import pytest

from tests.process.scripts import Scripts


@pytest.mark.extended
def test_the_default_is_the_session_as_it_is(script: Scripts) -> None:
    driver = script("""
        import json
        import numpy as np
        from matplotlib.figure import Figure
        from matplotlib.text import Text

        wb.init(workers=1, memory="64MB")
        array = wb.get(wb.put(np.zeros(1_000_000), name="weights"))
        figure = Figure((10, 16))
        plots = wb.plot_occupancy, wb.plot_pins, wb.plot_costs, wb.plot_timeline
        for plot, ax in zip(plots, figure.subplots(4)):
            plot(ax=ax)
            say(json.dumps([text.get_text() for text in ax.findobj(Text)]))
        """)
    occupancy, pins, costs, timeline = (json.loads(driver.line()) for _ in range(4))
    assert "weights" in occupancy
    assert {"named", "arrays", "weights", "8 MB"} <= set(pins)
    assert any(text.startswith("ndarray float64 (1000000,)") for text in costs)
    assert "live 8 MB" in timeline
    assert driver.wait() == 0
