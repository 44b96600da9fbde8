"""Kills the client, the server or the kernel of `workbench mcp` at random moments: what runs has
to be found, and stopped, by the next one."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

BEAT = (
    "import threading, time\nwith open({!r}, 'w') as file:\n    while True:\n"
    "        file.seek(0); file.write(str(time.time())); file.flush(); threading.Event().wait(.01)"
)
"""Code that tells, for as long as it runs, that it does."""

ALIVE = 0.5
"""Seconds without a beat after which code doesn't run any more."""


class Agent:
    """A program that speaks the protocol by itself."""

    def __init__(self, directory: Path) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "workbench", "mcp"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(directory / "errors").open("ab"),
        )
        self._asked = 0
        about = {"name": "kills", "version": "1"}
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        self._answer("initialize", version)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self._answer("tools/call", {"name": tool, "arguments": arguments})
        return json.loads(result["content"][0]["text"])

    def kill_server(self) -> None:
        self._server.kill()

    def leave(self) -> None:
        """Go without a word: as a client that was killed."""
        for pipe in (self._server.stdin, self._server.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def wait(self) -> None:
        self._server.wait(20)

    def _answer(self, method: str, params: dict[str, Any]) -> Any:
        self._asked += 1
        self._say({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        assert self._server.stdout is not None
        for line in self._server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._asked:
                return answer["result"]
        raise EOFError

    def _say(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()


def beats(file: Path) -> bool:
    """Whether the code that writes the file runs."""
    before = file.read_text() if file.exists() else ""
    threading.Event().wait(ALIVE)
    return (file.read_text() if file.exists() else "") != before


def look(agent: Agent, directory: Path, n: int, chance: random.Random) -> tuple[Agent, str]:
    """One kill. Return the next program, and what was wrong, or ''."""
    near, far = directory / f"near{n}", directory / f"far{n}"
    victim = chance.choice(["client", "server", "kernel"])
    pid = int(agent.call("run", code="import os; os.getpid()", wait=20)["output"]["text"])
    job = agent.call("run", code=BEAT.format(str(far)), background=True, wait=1)["job"]
    agent.call("run", code=BEAT.format(str(near)), wait=chance.choice([0.01, 0.3]))
    threading.Event().wait(chance.random() * 0.3)
    if victim == "kernel":
        os.kill(pid, signal.SIGKILL)
    else:
        agent.kill_server() if victim == "server" else agent.leave()
        agent.wait()
        agent = Agent(directory)
    listed: dict[str, Any] = {}
    while not listed.get("jobs"):
        listed = agent.call("explain", what="jobs", limit=100_000)
    names = [each["name"] for each in listed["jobs"] if each["state"] == "running"]
    wrong = "" if job in names or not beats(far) else f"{job} isn't found: {names}"
    for name in names:
        ended = agent.call("job", handle=name, stop=True, wait=5)
        wrong = wrong or ("" if ended["state"] == "stopped" else f"{name} is {ended['state']}")
    left = [file.name for file in (near, far) if beats(file)]
    return agent, wrong or (f"after the {victim}'s death: {left}" if left else "")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.twins.agent_kills", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, counted = random.Random(options.seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kills-") as directory:
        os.environ |= {"WORKBENCH_RUNTIME_DIR": directory, "IPYTHONDIR": directory}
        agent = Agent(Path(directory))
        for n in range(options.count):
            agent, wrong = look(agent, Path(directory), n, chance)
            counted["wrong" if wrong else "right"] += 1
            if wrong:
                print(n, wrong, flush=True)
        agent.call("run", code="%workbench stop", wait=20)
        agent.leave()
        agent.wait()
        print((Path(directory) / "errors").read_text()[-3000:])
    print(dict(counted))
    return int(counted["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
