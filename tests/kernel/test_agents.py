"""A program in a person's kernel: both work there, both see and stop what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.kernel.conftest import Kernel
from tests.patience import TIMEOUT
from tests.process.test_mcp import run as run_async
from tests.process.test_mcp import server

FOREVER = "import threading\nthreading.Event().wait()"


def test_a_program_works_beside_a_person(session: Kernel, runtime_dir: str) -> None:
    pid = session.value("__import__('os').getpid()")

    async def beside(do: Callable[[], object]) -> Awaitable[object]:
        return await asyncio.to_thread(do)  # type: ignore[return-value]

    async def test() -> None:
        async with server(None, "--kernel", pid, runtime=runtime_dir) as call:
            await beside(lambda: session.ok("mine = 1"))
            seen = await call("run", code="theirs = mine + 1\ntheirs", wait=TIMEOUT)
            assert seen["output"]["text"] == "2\n"
            assert await beside(lambda: session.value("theirs")) == "2"
            mine = session.start(f"print('begun', flush=True)\n{FOREVER}")
            await beside(lambda: session.until(mine.text))
            waits = await call("run", code="mine = 3", wait=0.01)
            assert waits["state"] == "queued"
            await beside(session.interrupt)
            await call("job", handle=waits["handle"], wait=TIMEOUT)
            assert await beside(lambda: session.value("mine")) == "3"
            far = await call("run", code=FOREVER, background=True, wait=0.1)
            name = far["job"]
            listed = await beside(lambda: session.ok("%workbench jobs").results()[0])
            assert name in str(listed)
            await beside(
                lambda: session.ok(f"job = %workbench job '{name}'\njob.cancel()\njob.wait()")
            )
            ended = await call("job", handle=name, wait=TIMEOUT)
            assert ended["state"] == "stopped"
        assert await beside(lambda: session.value("mine")) == "3"  # the kernel stays

    run_async(test)
