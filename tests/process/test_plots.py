"""Plots and still forms of a real session, as it is now.

They are drawn in processes of their own: matplotlib keeps the fonts' files open.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.process.scripts import Script


@pytest.mark.extended
def test_the_default_is_the_session_as_it_is_and_its_still_form_outlives_it(
    script: Callable[..., Script],
) -> None:
    driver = script("""
        import json
        import numpy as np
        from matplotlib.figure import Figure
        from matplotlib.text import Text
        from workbench.plots.pictures import picture
        from workbench.report.html import PARTS, Still

        wb.init(workers=1, memory="64MB")
        ref = wb.put(np.zeros(1_000_000), name="weights")
        array = wb.get(ref)
        figure = Figure((10, 16))
        plots = wb.plot_occupancy, wb.plot_pins, wb.plot_costs, wb.plot_timeline
        for plot, ax in zip(plots, figure.subplots(4)):
            plot(ax=ax)
            figure.canvas.draw()
            say(json.dumps([text.get_text() for text in ax.findobj(Text)]))
        wb.pin(ref)
        kept = wb.snapshot().to_json()
        still = Still(PARTS, wb.snapshot(), {ref.id: (("held", "ref"),)})
        now, drawn = str(still), picture(still)
        wb.shutdown()
        later = Still(PARTS, wb.Snapshot.from_json(kept))
        say(json.dumps([now, str(later), len(drawn)]))
        """)
    occupancy, pins, costs, timeline = (json.loads(driver.line()) for _ in range(4))
    assert "weights" in occupancy
    assert {"named", "ref", "arrays", "weights", "8 MB"} <= set(pins)
    assert any(text.startswith("ndarray float64 (1000000,)") for text in costs)
    assert "live 8 MB" in timeline
    now, later, picture = json.loads(driver.line())
    assert "weights" in now
    assert "pinned" in later
    assert picture > 5_000
    assert driver.wait() == 0
