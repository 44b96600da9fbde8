"""The course's notebooks, run whole with answers: as they came, wrong ones, right ones.

One kernel and one run a notebook. The answers are in `tests/course`, a module and a text a lesson;
they have the name of the lesson's module in `workbench.course`. Cells are found by their tags and
ids: see CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

import workbench.course
from tests import notebooks
from tests.course.answers import RESTART, Answers, typed
from tests.kernel.conftest import Cell, Kernel, a_kernel
from workbench.course.checks import STATES
from workbench.course.exercises import Lesson, lessons
from workbench.course.words import ENGLISH, say, words_of

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"

MODULES = {lesson.module: lesson for lesson in lessons()}

EDITIONS = {
    path.stem: (name, path)
    for name, lesson in MODULES.items()
    for path in sorted(NOTEBOOKS.glob(f"{lesson.file}*.ipynb"))
}
"""(module, notebook): a lesson's notebook, and its translations."""


def answers_of(module: str) -> Answers:
    found: Answers = import_module(f"tests.course.{module}").ANSWERS
    return found


def language_of(path: Path) -> str:
    """The language of an edition: ``02-is-it-a-copy.zh`` is Chinese. Empty: English."""
    return path.stem.partition(".")[2]


def code_cells(path: Path) -> list[notebooks.Node]:
    return [cell for cell in notebooks.read(path).cells if cell.cell_type == "code"]


def tagged(path: Path, tag: str) -> dict[str, str]:
    """The sources of the cells with a tag, by id."""
    cells = code_cells(path)
    return {cell.id: cell.source for cell in cells if tag in cell.metadata.get("tags", ())}


@pytest.mark.parametrize("edition", EDITIONS)
def test_each_exercise_has_its_cells_and_its_answers(edition: str) -> None:
    module, path = EDITIONS[edition]
    lesson, answers = MODULES[module], answers_of(module)
    names = [each.name for each in lesson.exercises]
    assert list(tagged(path, "exercise")) == names
    begin = f"from workbench.course{path.suffixes[0] if path.suffixes[1:] else ''} import check\n\n"
    # After a kernel's restart a check still can say which cell to run again.
    assert tagged(path, "check") == {f"check-{name}": f"{begin}check.{name}()" for name in names}
    assert set(answers.right) == set(names)
    assert set(answers.wrong) == set(names)
    few = [name for name in names if len(answers.wrong[name]) < 3]
    assert not few, "each exercise has three wrong answers that look right, and are refused"
    guesses = [id.removeprefix("guess-") for id in tagged(path, "predict")]
    names = [each.replace("-", "_") for each in guesses]
    for name, source in zip(names, tagged(path, "predict").values(), strict=True):
        assert source.endswith(f"guess_{name} = ..."), "each question has variables of its own"
    assert [id.removeprefix("reveal-") for id in tagged(path, "reveal")] == guesses
    for name, source in zip(names, tagged(path, "reveal").values(), strict=True):
        assert re.search(rf'reveal\(\s*"{name}",', source), source
        assert source.startswith(begin.replace("check", "reveal")), "it is found after a restart"
        assert len(ast.parse(source).body) == 2, f"{name}: measure above, where nothing is closed"
    assert set(answers.guesses) == set(guesses)
    assert set(answers.mistaken) == set(guesses), "each guess has a wrong one"
    for cell in code_cells(path):
        if "reveal" in cell.metadata.get("tags", ()):  # closed: it gives the answer away
            assert cell.metadata["jupyter"] == {"source_hidden": True}, cell.id
            assert "hide-input" in cell.metadata.tags, cell.id
            assert "why=" not in cell.source.splitlines()[0], f"{cell.id}: this line is seen"


@pytest.mark.parametrize("module", MODULES)
def test_hints_come_in_three_steps_and_the_pages_are_there(module: str) -> None:
    lesson: Lesson = MODULES[module]
    for exercise in lesson.exercises:
        assert len(set(exercise.hints)) == 3, exercise.name
        page, _, heading = exercise.page[0].partition("#")
        text = (ROOT / "docs" / page).read_text()
        headings = re.findall(r"(?m)^#+ (.*)", text)  # linked to as on GitHub and in our docs:
        slugs = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
        assert not heading or heading in slugs, f"{exercise.name}: {exercise.page[0]}; {slugs}"


TRANSLATED = [edition for edition, (_, path) in EDITIONS.items() if "." in path.stem]
SAYS = {"say", "right", "almost", "wrong", "state", "refused", "unready", "untouched"}
"""What takes a template."""


def given(source: str, *functions: str) -> list[ast.expr]:
    """What calls of these functions are given by position; of a variable, what it was assigned."""
    nodes = [*ast.walk(ast.parse(source))]
    values = {ast.unparse(n.targets[0]): n.value for n in nodes if isinstance(n, ast.Assign)}
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) in functions]
    return [values.get(ast.unparse(arg), arg) for call in calls for arg in call.args]


def templates(module: str) -> set[str]:
    """All that a module of the course may say."""
    source = Path(workbench.course.__path__[0], f"{module}.py").read_text()
    found = {str(e.value) for e in given(source, *SAYS) if isinstance(e, ast.Constant)}
    for exercise in MODULES[module].exercises if module in MODULES else ():
        found |= {*exercise.hints, exercise.page[1], MODULES[module].title}
    return found


def labels(path: Path) -> set[str]:
    """What a notebook's cells call the figures that they measure."""
    cells = (re.sub(r"(?m)^( *)%.*", r"\1pass", cell.source) for cell in code_cells(path))
    values = (v for c in cells if "answer(" in c for v in given(c, "measure.answer"))
    keys = (key for value in values if isinstance(value, ast.Dict) for key in value.keys)
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


@pytest.mark.parametrize("edition", TRANSLATED)
def test_all_that_is_said_is_translated(edition: str) -> None:
    module, path = EDITIONS[edition]
    catalog = ROOT / "workbench" / "course" / f"{language_of(path)}.po"
    with catalog.open("rb") as file:
        words = {str(each.id): str(each.string) for each in read_po(file) if each.id}
    words_now = words_of(language_of(path))
    assert {template: words_now(template) for template in words} == words, "`make translations`"
    modules = ("exercises", "checks", "measure", "reveals", module)
    missing = labels(path).union(*map(templates, modules)) - words.keys()
    assert not missing, f"{path.stem}: {sorted(missing)}"
    for template, translated in words.items():
        places = re.findall(r"\{\w*[^}]*\}", template)
        assert sorted(places) == sorted(re.findall(r"\{\w*[^}]*\}", translated)), template


@pytest.mark.parametrize("edition", TRANSLATED)
def test_a_translation_has_the_same_cells(edition: str) -> None:
    _, path = EDITIONS[edition]
    original = path.with_name(f"{path.stem.partition('.')[0]}.ipynb")
    ours, theirs = (notebooks.read(each).cells for each in (path, original))
    assert [cell.id for cell in ours] == [cell.id for cell in theirs]
    for cell, other in zip(ours, theirs, strict=True):
        assert cell.metadata == other.metadata, cell.id
        if cell.cell_type == "code":
            assert _untold(cell.source) == _untold(other.source), cell.id
        else:
            assert cell.source != other.source, f"{cell.id} isn't translated"


def _untold(source: str) -> str:
    """Code without what a translation may say otherwise: comments, docstrings, the reason, its own
    import."""
    source = re.sub(r'why=("[^"\n]*"\s*)+', "why", re.sub(r'"""[^"]*"""', "", source))
    source = re.sub(r"(?m)(^|  )# .*$", "#", source)
    return re.sub(r"from workbench\.course(\.\w+)? import", "from workbench.course import", source)


def said(cell: Cell) -> str:
    """What a check or reveal shows, as text."""
    assert cell.error is None, cell.failure
    assert cell.results("text/html"), cell
    (text,) = cell.results()
    return str(text)


@pytest.fixture(scope="module")
def kernel(runtime_dir: str) -> Iterator[Kernel]:
    """Without the notebook's path, which not every front end tells."""
    yield from a_kernel(runtime_dir)


UNSET = """
for name in {{name for name in os.environ if name.startswith("WORKBENCH_")}} - {}:
    del os.environ[name]
"""
KEPT = {*os.environ, "WORKBENCH_RUNTIME_DIR", "WORKBENCH_HEADROOM"}
"""In a kernel: what `%env` has set, a `%reset` doesn't undo."""


def answer(kernel: Kernel, source: str) -> Cell:
    """Run it; its last cell."""
    first, *more = source.split(RESTART)
    if not more:
        return kernel.run(source, headless=True)
    if first:
        kernel.ok(first)
    for part in more:
        kernel.restart(now=False)
        last = kernel.run(part)
    return last


QUICK = "02-is-it-a-copy", "05-when-it-cant-be-pickled"


@pytest.mark.parametrize(
    "edition",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.extended) for each in EDITIONS],
)
def test_answers_are_told_from_each_other(edition: str, kernel: Kernel) -> None:
    """The cell as it came and wrong answers are refused, the right one is accepted."""
    module, path = EDITIONS[edition]
    answers, language = answers_of(module), language_of(path)
    words = words_of(language) if language else ENGLISH
    states = {name: sentence.within(words) for name, (sentence, _) in STATES.items()}
    exercise = task = guess = ""
    kernel.ok(f"%cd -q {path.parent}")  # as Jupyter starts it: files are beside the notebook
    try:
        for cell in code_cells(path):
            tags = cell.metadata.get("tags", ())
            source = cell.source
            if "exercise" in tags:  # it is waited for: what it shows is as good when it is quick
                source = re.sub(r"(?<=sleep)\(1\)", "(0.01)", source)
            done = kernel.run(source, headless=True)
            assert (done.error is None) or "raises-exception" in tags, done.failure
            if "exercise" in tags:
                exercise, task = cell.id, cell.source
            elif "predict" in tags:
                guess = cell.id.removeprefix("guess-")
            elif "check" in tags:
                began = said(done)
                assert began.startswith(f"{exercise}: "), began
                assert states["right"] not in began.splitlines()[0], began
                for wrong in answers.wrong[exercise]:
                    tried = kernel.run(typed(wrong.source, task), headless=True)
                    refused = said(kernel.run(cell.source, headless=True)) + tried.failure
                    assert refused.startswith(f"{exercise}: {states[wrong.state]}"), refused
                    if words is ENGLISH:
                        assert re.search(wrong.says, refused), refused
                solved = answer(kernel, typed(answers.right[exercise], task))
                assert solved.error is None, solved.failure
                accepted = said(kernel.run(cell.source, headless=True))
                assert accepted.startswith(f"{exercise}: {states['right']}"), accepted
            elif "reveal" in tags:
                first = say("Make a guess first.").within(words)
                assert said(done).startswith(first), done
                guessed = say("You guessed: {guess}.").within(words).partition("{")[0]
                template = "Measured: {answer}. Right."
                agreed = words(template).rpartition("}")[2]
                for guessing, agrees in ((answers.mistaken, False), (answers.guesses, True)):
                    kernel.ok(guessing[guess])
                    revealed = said(kernel.ok(cell.source)).splitlines()[0]
                    assert revealed.startswith(guessed), revealed
                    assert revealed.endswith(agreed) == agrees, revealed
        lesson = MODULES[module]
        assert f"\n{'●' * len(lesson.exercises)} {words(lesson.title)}" in accepted
    finally:
        kernel.run("%workbench stop\n%unload_ext workbench")  # so that loading it starts another
        kernel.run(f"%reset -f\nimport gc, os; gc.enable()\n{UNSET.format(KEPT)}")
