"""A JupyterLab server that has nothing of the user's and leaves nothing behind. No browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.leaks import eventually
from tests.patience import TIMEOUT

SETTINGS: dict[str, dict[str, Any]] = {
    "apputils-extension/notification": {"fetchNews": "false"},  # it would ask whether it may
    "docmanager-extension/plugin": {"autosave": False},  # a test saves when it means to
}
"""What differs from a fresh JupyterLab, by its plugins."""


class Server:
    """One server, whose kernels work in ``root`` and have their sessions in ``runtime``."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.root = home / "notebooks"
        self.runtime = home / "wb"
        self._settings = home / "settings"
        self._log = home / "log"
        self.root.mkdir()
        self.runtime.mkdir(mode=0o700)
        for plugin, settings in SETTINGS.items():
            self.set(plugin, **settings)
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("WORKBENCH_", "JPY_"))},
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "jupyter"),
            "JUPYTERLAB_SETTINGS_DIR": str(self._settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "WORKBENCH_RUNTIME_DIR": str(self.runtime),
            "WORKBENCH_SPILL_DIR": "none",
            "WORKBENCH_HEADROOM": "0",
            "WORKBENCH_WORKERS": "2",
            "WORKBENCH_MEMORY": "64MB",
        }
        self._start()

    def _start(self) -> None:
        # Of two servers that start at once each would take Jupyter's usual port for free.
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *(f"--ServerApp.root_dir={self.root}", "--ServerApp.ip=127.0.0.1"),
            *(f"--ServerApp.port={port}", "--LabApp.expose_app_in_browser=True"),
        ]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, cwd=self.root
            )
        # It makes a token, and says that and its port in this file.
        said = self._home / "jupyter" / f"jpserver-{self._process.pid}.json"

        def decided() -> bool:
            return self._process.poll() is not None or (said.exists() and bool(said.read_text()))

        started = eventually(decided, TIMEOUT) and self._process.poll() is None
        assert started, f"JupyterLab doesn't start:\n{self._log.read_text()}"
        info = json.loads(said.read_text())
        self._url, self._token = str(info["url"]), str(info["token"])

    def set(self, plugin: str, **settings: Any) -> None:
        """A person's settings of ``apputils-extension/themes`` and the like."""
        path = self._settings / "@jupyterlab" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))

    def address(self, notebook: str) -> str:
        """Where a browser finds a notebook, alone in its window."""
        return f"{self._url}doc/tree/{notebook}?{urlencode({'token': self._token})}"

    def end_sessions(self) -> None:
        """Shut down all kernels, and the sessions of Workbench that they used."""
        for kernel in self._ask("GET", "api/kernels"):
            self._ask("DELETE", f"api/kernels/{kernel['id']}")
        stop = [sys.executable, "-m", "workbench", "stop", "--all"]
        subprocess.run(stop, env=self._environment, capture_output=True)  # 1: there is none

    def _ask(self, method: str, path: str) -> Any:
        headers = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(self._url + path, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return json.loads(answer.read() or "null")

    def stop(self) -> None:
        """End it, with its kernels."""
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait()


@contextmanager
def serve() -> Iterator[Server]:
    """A server in a temporary directory, whose path is short enough for sockets."""
    home = Path(tempfile.mkdtemp(prefix="wb-"))
    try:
        server = Server(home)
        try:
            yield server
        finally:
            server.stop()
        left = [path.name for path in server.runtime.iterdir() if path.name != "workbench.lock"]
        assert not left, f"left in the runtime directory: {left}"
    finally:
        shutil.rmtree(home)
