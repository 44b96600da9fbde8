"""Fixtures: JupyterLab in headless Chromium; gates at which cells stop; pictures. No tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect, sync_playwright

from tests.browser.gates import Gate, Gates
from tests.browser.lab import SIZE, Lab, Notebook, Picture
from tests.browser.server import Server, serve
from tests.patience import TIMEOUT

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")  # as in the Makefile

NO_CHROMIUM = (
    "These tests need Chromium or Chrome as one of the commands "
    f"{', '.join(CHROMIUMS)}. On Debian: apt install chromium"
)

MOST_BYTES = 170_000
"""Of a picture: it lies in the repository."""


@pytest.fixture(scope="package")
def windows() -> Iterator[BrowserContext]:
    """Chromium, headless, without windows. One for all tests: it need not load JupyterLab anew."""
    found = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(NO_CHROMIUM, pytrace=False)
        pytest.skip(NO_CHROMIUM)
    expect.set_options(timeout=1000 * TIMEOUT)
    with sync_playwright() as playwright:
        # Its sandbox refuses to work for root and in most containers; here it shows only our own.
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-background-networking"]
        )
        context = browser.new_context(viewport=SIZE)
        context.set_default_timeout(1000 * TIMEOUT)
        yield context
        browser.close()


@pytest.fixture(scope="package")
def server(windows: BrowserContext) -> Iterator[Server]:
    """One server for all tests; not started if there is no browser."""
    with serve() as server:
        yield server


@pytest.fixture(scope="package")
def labs(server: Server, windows: BrowserContext) -> Lab:
    """The one JupyterLab of all tests."""
    return Lab(server, windows)


@pytest.fixture
def lab(request: pytest.FixtureRequest, labs: Lab) -> Iterator[Lab]:
    """JupyterLab without notebooks. What the test opens ends with it; a window stays for the next
    one, unless this one failed.
    """
    failures = request.session.testsfailed
    yield labs
    labs.close(keep=request.session.testsfailed == failures)


@pytest.fixture
def gate(lab: Lab) -> Iterator[Gates]:
    """Makes gates: see `Gate`."""
    gates: list[Gate] = []

    def make(module: str) -> Gate:
        gates.append(Gate(lab.root, module))
        return gates[-1]

    yield make
    for each in gates:
        each.close()


@pytest.fixture
def picture() -> Picture:
    """Takes a picture of a notebook for the README. It is kept if ``make pictures`` says where."""

    def take(name: str, notebook: Notebook) -> None:
        png = notebook.picture()
        assert len(png) < MOST_BYTES
        if folder := os.environ.get("PICTURES"):
            Path(folder, f"{name}.png").write_bytes(png)

    return take
