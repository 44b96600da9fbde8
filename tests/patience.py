"""How long tests wait for what shall happen, and how much those try that try at random."""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("PATIENCE", "1"))
"""What every limit of time is multiplied with. Who waits goes on as soon as it happens, so patience
costs time only where a test fails."""

TIMEOUT = 60.0 * PATIENCE
"""Seconds that one event may take, on a machine whose processors are all busy."""

TEST_TIMEOUT = 5 * TIMEOUT
"""Seconds after which a test as a whole is given up."""

THOROUGH = bool(os.environ.get("THOROUGH"))
"""Set by ``make slow``: tests marked ``thorough``, and Hypothesis', try some ten times as much."""
