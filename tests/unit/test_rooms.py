"""The rooms and who may import whom: the table of ARCHITECTURE.md, held against the code."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.unit.sources import FILES, PACKAGE, tree

TESTS = Path(__file__).parents[1]

SHORT = {
    "pure": "errors format system.sizes",
    "neutral": "pure call_site config context expressions options ref ref_generator report.markup "
    "system",
    "libraries": "pandas polars pyarrow torch",
}
"""Pure: what every room may import; no clock, no file, no thread. Neutral: what every room may, but
for those that must stay pure. Libraries: only once an object of theirs has come, in a function."""

# Which of our rooms each room may import, and behind the bar, which other packages.
TABLE = """
core            pure | msgspec
wire            pure core.events core.instructions | msgspec
memory          pure | numpy xxhash
serialization   pure expressions ray_api report.markup system.ki_protection system.page_watch |
                cloudpickle numpy xxhash libraries
checkpoints     neutral core.snapshot engine serialization | numpy xxhash
result_cache    neutral engine.base engine.queries engine.records serialization
                session_file.layout | msgspec xxhash
client          neutral core engine heap memory report.facts report.freshness serialization
                wire | msgspec numpy
engine          pure config core.descriptions core.events core.snapshot options ref ref_generator
                serialization.comparison serialization.packing | msgspec
session_file    neutral checkpoints.groups engine serialization | numpy xxhash zstandard pyarrow
server          pure config core memory.segment memory.spill system wire | msgspec
surroundings    pure call_site serialization
host            pure call_site context core.events core.logs engine.base engine.queries error_notes
                report.cached report.freshness result_cache serialization surroundings system |
                IPython comm traitlets
worker          neutral api.functions client core.events core.instructions core.loop_events
                engine host interop.registration surroundings
                serialization server.forkserver_start server.settings wire.buffers wire.packets |
                cloudpickle msgspec numpy
engines         neutral client core.descriptions core.events core.logs core.snapshot core.tasks
                engine error_notes host interop.registration memory.copying memory.segment
                memory.views serialization server.settings surroundings |
                distributed msgspec numpy ray
ipython         neutral api checkpoints core.events core.logs core.snapshot engine engines.choice
                session_file error_notes heap host.cached_runs host.captured host.cell host.cells
                host.comms host.display result_cache
                host.reloading interop.registration report
                serialization surroundings widgets.kept widgets.lines widgets.page_model
                widgets.views | IPython comm xxhash
report          pure checkpoints.records result_cache.code result_cache.records core.descriptions
                core.events core.logs core.snapshot engine.base session_file.contents engine.queries
                expressions heap ref | msgspec numpy
plots           pure context core.snapshot engine.queries report | matplotlib
widgets         pure api checkpoints.timeline context core.snapshot engine.base engine.queries
                heap report serialization.costs
                | IPython anywidget msgspec traitlets
util            api errors ray_api ref
cli             neutral api checkpoints client.requests core.descriptions core.events
                core.instructions result_cache.entries session_file.contents core.referrers
                core.snapshot engine engines kernels mcp_server memory.segment report
                server.settings wire | jupyter_client msgspec nbclient nbformat numpy
kernels         errors system.machine | jupyter_client
mcp_server      neutral api core.logs core.snapshot engine.base engine.queries kernels | mcp
interop         api call_site engine errors host.tracebacks options ref system.ki_protection
                serialization.comparison surroundings |
                joblib numpy threadpoolctl xxhash
api             neutral core.snapshot engine engines error_notes host.cached_functions ray_api
                report serialization | IPython tqdm
course          pure checkpoints context core.snapshot engine.base engine.queries engines.choice ref
                report serialization.shared_memory system.machine | IPython numpy
error_notes     pure call_site config context engine.base engine.queries heap ref report
                system.data_limit system.machine
heap            pure call_site serialization.arrays serialization.sampling
                serialization.shared_memory | numpy
expressions     format | numpy
format
errors          format | IPython pygments
ray_api
system          errors format
call_site       errors
config          pure system.machine | platformdirs
context         engine.base errors ref
exceptions      errors ray_api
options         ray_api
ref
ref_generator   ref
runtime_context api.actors api.lifecycle engine.base engine.queries ray_api ref
__main__        cli
__init__        api config core.snapshot exceptions interop ipython.loading plots ray_api ref
                ref_generator runtime_context util widgets
"""


def words(text: str) -> set[str]:
    return {w for word in text.split() for w in (words(SHORT[word]) if word in SHORT else [word])}


ROOMS = {
    room: (words(ours), words(others))
    for room, text in re.findall(r"^(\w+)(.*(?:\n +.*)*)", TABLE, re.MULTILINE)
    for ours, _, others in [text.partition("|")]
}


@cache
def edges(file: Path) -> list[tuple[int, str]]:
    """(line, absolute name) of all that a file imports, anywhere in it."""
    return list(edges_of(tree(file)))


def edges_of(part: ast.AST) -> Iterator[tuple[int, str]]:
    """The same for a part of it."""
    for node in ast.walk(part):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"from {node.module} is imported relatively"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                path = PACKAGE.parent / Path(*name.split("."))
                is_module = path.is_dir() or path.with_suffix(".py").exists()
                yield node.lineno, name if is_module else str(node.module)


def top_level(file: Path) -> Iterator[tuple[int, str]]:
    for node in tree(file).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from edges_of(node)


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def may_import(room: str, name: str) -> bool:
    ours, others = ROOMS[room]
    top, _, inside = name.partition(".")
    if top != "workbench":
        return top in sys.stdlib_module_names or top in others
    rooms = ours | {room}
    return not inside or any(inside == good or inside.startswith(f"{good}.") for good in rooms)


def test_the_table_names_the_rooms_that_there_are() -> None:
    assert set(ROOMS) == {room_of(file) for file in FILES}


def test_a_file_imports_only_what_its_room_may() -> None:
    offences = [
        f"{file.relative_to(PACKAGE.parent)}:{line} imports {name}; see ROOMS"
        for file in FILES
        for line, name in edges(file)
        if not may_import(room_of(file), name)
    ]
    assert not offences, "\n".join(offences)


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


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports for type checking and inside functions count: they are held to be true, too."""
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"d", "e"}}
    assert sorted(sorted(set(circle)) for circle in circles(graph)) == [["a", "b", "c"], ["d"]]
    modules: dict[str, set[str]] = {}
    for file in FILES:
        name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = {target for _, target in edges(file)}
    found = circles({name: targets & modules.keys() for name, targets in modules.items()})
    assert not found, "\n".join(" → ".join(circle) for circle in found)


def test_no_two_rooms_import_each_other() -> None:
    """What both need goes down to a room below."""
    pairs = {
        (room_of(file), name.split(".")[1])
        for file in FILES
        for _, name in edges(file)
        if name.startswith("workbench.") and name.split(".")[1] != room_of(file)
    }
    assert not {pair for pair in pairs if pair[::-1] in pairs}


def test_libraries_are_imported_only_once_an_object_of_theirs_has_come() -> None:
    late = words("libraries")
    for file in FILES:
        assert not late & {name.partition(".")[0] for _, name in top_level(file)}, file


def test_the_core_has_no_clock_no_socket_no_thread() -> None:
    forbidden = words("time datetime random secrets socket select threading os io")
    for file in (PACKAGE / "core").glob("*.py"):
        assert not forbidden & {name.partition(".")[0] for _, name in edges(file)}, file


def test_no_test_sleeps() -> None:
    needle = "sleep" + "("
    found = [str(file) for file in TESTS.rglob("*.py") if needle in file.read_text()]
    assert not found


def test_every_file_says_what_lives_there() -> None:
    assert not [file for file in FILES if not ast.get_docstring(tree(file))]


MOST_LINES = 450

MOST_METHODS = 30


def test_no_file_is_too_long_to_read() -> None:
    files = [*FILES, *PACKAGE.rglob("*.js")]
    lengths = {str(file.relative_to(PACKAGE)): len(file.read_text().splitlines()) for file in files}
    assert not {file: lines for file, lines in lengths.items() if lines > MOST_LINES}


def test_no_class_has_too_many_public_methods() -> None:
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef):
                methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
                public = [name for name in methods if not name.startswith("_")]
                assert len(public) <= MOST_METHODS, f"{file}: {node.name}"


def test_an_engine_has_to_have_little() -> None:
    """Questions are records: `engine.queries`."""
    classes = [n for n in tree(PACKAGE / "engine/base.py").body if isinstance(n, ast.ClassDef)]
    members = [n for c in classes for n in c.body if isinstance(n, ast.FunctionDef | ast.AnnAssign)]
    assert 20 < len(members) <= 35


def test_no_two_classes_share_a_name() -> None:
    classes = [n.name for file in FILES for n in tree(file).body if isinstance(n, ast.ClassDef)]
    assert not [name for name, count in Counter(classes).items() if count > 1]
