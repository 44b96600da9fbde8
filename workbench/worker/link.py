"""The `Link` of a local worker: its client's connection."""

from __future__ import annotations

from workbench.client.client import Client


class ClientLink:
    """See `Link`.

    Parameters
    ----------
    client : Client
        The worker's.
    """

    def __init__(self, client: Client) -> None:
        self.work = client.work
        self.put = client.connection.put
        self._connection = client.connection

    def flush(self) -> None:
        """See `Link.flush`."""
        if not self._connection.flush():
            self._connection.wake()  # its thread sends the rest
