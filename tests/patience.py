"""How long tests wait for what shall happen. Every limit in them is a multiple of this one.

Who waits goes on as soon as it happens: patience costs time only where a test fails. Where the
machine is slower than anybody thought: ``make test PATIENCE=3``.
"""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("PATIENCE", "1"))

TIMEOUT = 60.0 * PATIENCE
"""Seconds that one event may take, on a machine whose processors are all busy."""

TEST_TIMEOUT = 5 * TIMEOUT
"""Seconds after which a test as a whole is given up."""
