"""One suite for every engine: notebooks that run on each.

``pytest tests/contract/engine --engine ray`` runs it over one; without that, over the local one
(Ray and Dask are slow tests). A test gets a ``book``: a real kernel with a session of the engine.
No assertions but of what was left.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator

import pytest

from tests.contract.engine.systems import ENGINES, Cluster, System, system_of
from tests.kernel.conftest import Cell, Kernel, gate, gates, opens

__all__ = ["gate", "gates"]

PREAMBLE = """
_hidden = get_ipython().user_ns_hidden
for _name in [n for n in list(globals()) if not n.startswith("_") and n not in _hidden]:
    del globals()[_name]
Out.clear()
import os, time
import numpy as np
import workbench as wb
def pause(seconds=3600.0):
    import threading
    threading.Event().wait(seconds)
"""
"""What each test's cells may use."""


class Book(Kernel):
    """A notebook on one engine. Cells may be indented as the test is."""

    def __init__(self, system: System, **environment: str) -> None:
        self.system = system
        super().__init__({**system.environment, **environment})
        self._lacks: dict[str, str] | None = None

    def begin(self) -> None:
        """Load the extension, and start the session: the one line that differs."""
        self.ok("%load_ext workbench")
        self.ok(f"%workbench start {self.system.start}")

    def begin_again(self) -> None:
        """In a new kernel."""
        self.ok("%load_ext workbench")
        if self.system.again:
            self.ok(f"%workbench start {self.system.again}")

    def clear(self) -> None:
        """For the next test: no variables but what all use."""
        self.ok(PREAMBLE)

    def start(self, code: str, headless: bool = False, console: bool = False) -> Cell:
        return super().start(textwrap.dedent(code).strip("\n"), headless, console)

    def fails(self, code: str, *words: str) -> str:
        """Run a cell that must fail, and say all of these; what it says, in one piece."""
        failure = self.run(code).failure
        for word in words:
            assert word in failure, failure or "it did not fail"
        return re.sub(r"\s+", " ", failure)

    @property
    def lacks(self) -> dict[str, str]:
        """What the engine says that it can't, by ability."""
        if self._lacks is None:
            self.ok("from workbench import context as _context")
            said: dict[str, str] = eval(self.value("_context.get().can.lacking()"))
            self._lacks = said
        return self._lacks

    def needs(self, ability: str) -> None:
        """Skip the test where the engine lacks it, in the engine's own words."""
        if lack := self.lacks.get(ability):
            pytest.skip(lack)


class Books:
    """An engine's notebook, which a test leaves to the next one unless it failed or spoiled it."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._book: Book | None = None

    def lend(self) -> Book:
        if self._book is None:
            self._book = Book(self.system)
            self._book.begin()
        self._book.clear()
        return self._book

    def end(self) -> None:
        if self._book is not None:
            book, self._book = self._book, None
            try:
                book.run("%workbench stop")
            finally:
                book.stop()


Opens = Callable[..., Book]
"""The fixtures ``another`` and ``alone``: open one of a name, with these environment variables."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test runs on each engine, or on those that are asked for; one that is of clusters alone
    (it takes a ``cluster``) on those."""
    if "system" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("engine", None) or ()
    of_all = ENGINES[1:] if "cluster" in metafunc.fixturenames else ENGINES
    chosen = [
        pytest.param(name, marks=() if name == "local" or asked else pytest.mark.slow)
        for name in of_all
        if name in (asked or ENGINES) or "all" in asked
    ]
    metafunc.parametrize("system", chosen, indirect=True, scope="session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Who asks for an engine gets all of the suite: nothing else shows its promises over that."""
    if config.getoption("engine", None):
        for item in items:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "extended"]


@pytest.fixture(scope="session")
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """The engine's surroundings."""
    if request.param != "local":
        pytest.importorskip({"ray": "ray", "dask": "distributed"}[request.param])
    system = system_of(request.param)
    yield system
    system.close()


@pytest.fixture
def cluster(system: System) -> Cluster:
    """The same, of a test that is of clusters alone."""
    assert isinstance(system, Cluster)
    return system


@pytest.fixture(scope="session")
def books(system: System) -> Iterator[Books]:
    books = Books(system)
    yield books
    books.end()


@pytest.fixture
def book(request: pytest.FixtureRequest, books: Books) -> Iterator[Book]:
    """The engine's notebook, without variables."""
    failures = request.session.testsfailed
    yield books.lend()
    if request.session.testsfailed > failures:
        books.end()


@pytest.fixture
def another(system: System) -> Iterator[Opens]:
    """Opens notebooks of the test's own."""
    yield from opens(lambda environment: Book(system, **environment))


@pytest.fixture
def alone(books: Books, another: Opens) -> Opens:
    """The same, while there is no other."""
    books.end()
    return another
