"""The rooms and who may import whom: the table of ARCHITECTURE.md, held against the code."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
TESTS = Path(__file__).parents[1]

PURE = {"errors", "report.format", "system.sizes"}
"""What every room may import: no clock, no file, no thread."""

NEUTRAL = PURE | {
    "call_site", "config", "context", "options", "ref", "ref_generator", "report.markup", "system",
}  # fmt: skip
"""What every room may import, but for those that must stay pure."""

LIBRARIES = {"pandas", "polars", "pyarrow", "torch"}
"""What may be imported inside a function, once an object of its has come."""

# room: (our rooms it may import, other packages it may import)
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    "core": (PURE, {"msgspec"}),
    "wire": (PURE | {"core.events", "core.instructions"}, {"msgspec"}),
    "memory": (PURE, {"numpy", "xxhash"}),
    "serialization": (
        PURE | {"report.markup"},
        {"numpy", "cloudpickle", "xxhash", *LIBRARIES},
    ),
    "client": (
        NEUTRAL
        | {"core", "wire", "memory", "serialization", "report.facts", "report.freshness"}
        | {"engines.base", "engines.lending_future", "engines.presentation", "engines.tally"},
        {"numpy"},
    ),
    "server": (
        PURE | {"system", "core", "wire", "memory.segment", "memory.spill"},
        {"msgspec"},
    ),
    "host": (
        PURE
        | {"call_site", "context", "system", "core.events", "core.logs", "error_notes"}
        | {"serialization"}  # what a cell captured by value, and what it changed of that
        | {"report.freshness"},  # a module that is older than its file
        {"IPython", "traitlets", "comm"},
    ),
    "worker": (
        NEUTRAL
        | {"host", "core.events", "core.instructions", "core.loop_events"}
        | {
            "wire.buffers",
            "wire.packets",
            "client",
            "serialization",
            "engines.lending_future",
            "engines.tally",
        }
        | {
            "server.settings",
            "server.forkserver_start",
            "api.actors",
            "api.functions",
            "interop.registration",
        },
        {"msgspec", "numpy", "cloudpickle"},
    ),
    "engines": (
        NEUTRAL
        | {"core.descriptions", "core.events", "core.logs", "core.snapshot"}
        | {"client", "server.settings"}
        | {"serialization"}  # values as they travel to a cluster, and what the protocol's
        # `compare` and `pack` take and give
        | {
            "host",
            "error_notes",
            "api.actors",
            "interop.registration",
        }  # tasks in a cluster's own processes
        | {"memory.copying", "memory.segment"},  # a node's store of large arrays, beside Dask
        {"msgspec", "numpy", "distributed", "ray"},
    ),
    "ipython": (
        NEUTRAL
        | {"api", "engines.base", "engines.tally", "core.events", "core.logs", "core.snapshot"}
        | {"engines.choice"}  # what the process is connected to, which is offered
        | {"error_notes", "host.captured", "host.cells", "host.comms", "host.display"}
        | {"host.environment", "host.reloading", "host.seeding", "report", "serialization"}
        | {"interop.registration", "widgets.lines", "widgets.page_model"}
        | {"widgets.views"},
        {"IPython", "comm"},
    ),
    "report": (
        PURE
        | {"core.descriptions", "core.events", "core.snapshot", "engines.base", "ref"}
        | {"serialization.expressions"},
        {"msgspec", "numpy"},
    ),
    "plots": ({"context", "core.snapshot", "errors", "report"}, {"matplotlib", "PIL"}),
    "widgets": (
        {"api", "context", "core.snapshot", "engines.base", "errors", "plots.pictures", "report"}
        | {"serialization.costs"},
        {"anywidget", "traitlets", "IPython", "msgspec"},
    ),
    "util": ({"api", "errors", "ray_api.names", "ref"}, set()),
    "cli": (
        NEUTRAL
        | {"api", "core.descriptions", "core.snapshot", "engines", "memory.segment"}
        | {"wire", "server.settings", "core.events", "core.instructions", "core.referrers"}
        | {"report"},
        {"numpy", "msgspec"},
    ),
    "interop": (
        {"api", "engines.base", "engines.lending_future", "engines.tally"}
        | {"call_site", "errors", "options", "ref"}
        | {"host.tracebacks"}  # what a chunk of calls tells of the one that failed
        | {"serialization.comparison"},  # the check of what was stored for an argument
        {"joblib", "numpy", "threadpoolctl", "xxhash"},
    ),
    "api": (
        NEUTRAL
        | {"core.snapshot", "engines", "error_notes", "ray_api.options", "report"}
        | {"serialization"},
        {"IPython", "tqdm"},
    ),
    "course": (
        {"context", "core.snapshot", "engines.base", "errors", "ref", "report"}
        | {"engines.choice"}  # what a line that names an engine means
        | {"system.machine"},  # what memory is left
        {"IPython", "numpy"},
    ),
    "error_notes": (
        {"call_site", "context", "engines.base", "errors", "ref", "report.format"},
        set(),
    ),
    "errors": ({"report.format"}, {"IPython", "pygments"}),
    "ray_api": (set(), set()),
    "system": (set(), set()),
    # top-level modules
    "call_site": ({"errors"}, set()),
    "config": (PURE | {"system.machine"}, {"platformdirs"}),
    "context": ({"engines.base", "errors", "ref"}, set()),
    "exceptions": ({"errors", "ray_api.names"}, set()),
    "options": ({"ray_api.options"}, set()),
    "ref": (set(), set()),
    "ref_generator": ({"ref"}, set()),
    "runtime_context": ({"api.actors", "api.lifecycle", "engines.base", "ref"}, set()),
    "__main__": ({"cli"}, set()),
    "__init__": (
        {"api", "config", "core.snapshot", "exceptions", "interop", "ipython.loading", "plots"}
        | {"ray_api.names", "ref", "ref_generator", "runtime_context", "util", "widgets"},
        set(),
    ),
}


def edges(file: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of all that a file imports, anywhere in it."""
    yield from edges_of(ast.parse(file.read_text()), file)


def edges_of(tree: ast.AST, file: Path | str = "") -> Iterator[tuple[int, str]]:
    """The same for a part of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                path = PACKAGE.parent / Path(*name.split("."))
                is_module = path.is_dir() or path.with_suffix(".py").exists()
                yield node.lineno, name if is_module else str(node.module)


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_a_file_imports_only_what_its_room_may(file: Path) -> None:
    room = room_of(file)
    assert room in ROOMS, f"{file}: no room for it; see ARCHITECTURE.md, and add it to the table"
    ours, others = ROOMS[room]
    offences = []
    for line, name in edges(file):
        top, _, inside = name.partition(".")
        if top == "workbench":
            allowed = not inside or any(
                inside == good or inside.startswith(f"{good}.") for good in ours | {room}
            )
        else:
            allowed = top in sys.stdlib_module_names or top in others
        if not allowed:
            offences.append(f"{file.relative_to(PACKAGE.parent)}:{line} imports {name}")
    assert not offences, "\n".join(
        [*offences, f"{room} may import {sorted(ours)}, {sorted(others)}"]
    )


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Circles in ``graph`` (module → what it imports), until none is left without their edges."""
    found = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1][::-1]  # each imports the next; the last one is the first
            found.append(circle)
            graph[circle[-2]].discard(circle[-1])
        else:
            return found


def test_every_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"d", "e"}}
    assert sorted(sorted(set(circle)) for circle in circles(graph)) == [["a", "b", "c"], ["d"]]


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for type checking and inside functions count: they are held to be true, too."""
    modules = {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        ): file
        for file in FILES
    }
    graph = {name: {target for _, target in edges(file)} for name, file in modules.items()}
    found = circles({name: targets & modules.keys() for name, targets in graph.items()})
    assert not found, "\n".join(" → ".join(circle) for circle in found)


def test_the_table_names_only_rooms_that_exist() -> None:
    assert set(ROOMS) == {room_of(file) for file in FILES}


def test_libraries_are_imported_only_once_an_object_of_theirs_has_come() -> None:
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {name.partition(".")[0] for _, name in edges_of(node)}
                assert not LIBRARIES & names, f"{file}:{node.lineno}"


def test_the_core_has_no_clock_no_socket_no_thread() -> None:
    forbidden = {
        "time",
        "datetime",
        "random",
        "secrets",
        "socket",
        "select",
        "threading",
        "os",
        "io",
    }
    for file in (PACKAGE / "core").glob("*.py"):
        for line, name in edges(file):
            assert name.partition(".")[0] not in forbidden, f"{file}:{line} imports {name}"


def test_segments_need_no_numpy() -> None:
    """So that the server, which holds every segment's descriptors, stays light."""
    for file in ("segment.py", "spill.py"):
        assert "numpy" not in {name for _, name in edges(PACKAGE / "memory" / file)}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("workbench", {"numpy", "IPython", "msgspec", "cloudpickle", "asyncio", "matplotlib"}),
        ("workbench.server.__main__", {"numpy", "cloudpickle", "pickle", "IPython", "asyncio"}),
        ("workbench.worker.preload", {"IPython", "matplotlib", "ipywidgets"}),
        # Before they start another process, that has as much to import:
        ("workbench.server.forkserver_start", {"msgspec", "inspect"}),
        ("workbench.api.lifecycle", {"numpy", "IPython", "cloudpickle"}),
        ("workbench.engines.local", {"numpy", "IPython", "cloudpickle"}),
        ("workbench.ipython.loading", {"numpy", "IPython", "workbench.ipython.extension"}),
        ("workbench.api", {"IPython", "matplotlib", "ipywidgets"}),
        ("workbench.report.html", {"IPython", "matplotlib", "ipywidgets", "numpy"}),
        ("workbench.plots.axes", {"IPython", "matplotlib", "ipywidgets"}),
        ("workbench.api.gathering", {"IPython", "tqdm", "ipywidgets", "asyncio"}),
        ("workbench.cli", {"numpy", "IPython", "argparse"}),
        ("workbench.cli.sessions", {"IPython", "matplotlib", "ipywidgets"}),
    ],
)
def test_importing_stays_light(module: str, absent: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.split())


def test_no_test_sleeps() -> None:
    needle = "sleep" + "("
    found = [str(file) for file in TESTS.rglob("*.py") if needle in file.read_text()]
    assert not found


def test_every_file_says_what_lives_there() -> None:
    for file in FILES:
        assert ast.get_docstring(ast.parse(file.read_text())), f"{file} has no first line"


MOST_LINES = 450

MOST_METHODS = 30


def test_no_file_is_too_long_to_read() -> None:
    files = [*FILES, *PACKAGE.rglob("*.js")]
    lengths = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in files}
    assert not {file: lines for file, lines in lengths.items() if lines > MOST_LINES}


def test_no_class_has_too_many_public_methods() -> None:
    found = {}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                public = [method for method in methods if not method.name.startswith("_")]
                found[f"{file.relative_to(PACKAGE)}: {node.name}"] = len(public)
    assert not {name: count for name, count in found.items() if count > MOST_METHODS}


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for file in FILES:
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file.relative_to(PACKAGE)))
    assert not {name: files for name, files in places.items() if len(files) > 1}
