"""`python -m workbench.server SETTINGS`: the server process of one session.

Started by `engines.local`, which has made the listening socket: clients can connect and send before
this process has finished importing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import sys

from workbench.server.forkserver_start import start


def main() -> None:
    """Serve until the session ends, then remove its files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the clients' business
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # up to four a client
    gc.disable()  # the core makes no cycles, and a full collection would stall everybody
    started = None
    with contextlib.suppress(OSError):  # no process or descriptor left now
        started = start(sys.argv[1], limits)
    # Imported late: the forkserver has the most to import, and the first result waits for it.
    from workbench.core.session import Session
    from workbench.server.forkserver_client import ForkserverClient
    from workbench.server.loop import Server
    from workbench.server.settings import settings_of

    settings = settings_of(sys.argv[1])
    listener = socket.socket(fileno=settings.listener)
    forkserver = ForkserverClient(started, sys.argv[1], limits)
    config = settings.config
    session = Session(
        settings.session,
        config.workers,
        config.memory,
        config.headroom,
        bool(config.spill_dir),
        config.idle,
    )
    session.spill_dir = config.spill_dir
    try:
        with contextlib.suppress(SystemExit):  # SIGTERM
            Server(listener, session, forkserver, config.spill_dir).run()
        # While the socket still listens: otherwise the next session of this name may replace it at
        # any moment, and the files wouldn't be ours to remove. If the server fails, they stay: the
        # log says why, and the next session removes them at its start.
        for path in settings.files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        listener.close()
        forkserver.close()


if __name__ == "__main__":
    main()
