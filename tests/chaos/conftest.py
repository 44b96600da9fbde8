"""The fixtures of real processes, for chaos too. See `tests/process/conftest.py`."""

from tests.process.conftest import processes, runtime, script, sessions, shared_sessions

__all__ = ["processes", "runtime", "script", "sessions", "shared_sessions"]
