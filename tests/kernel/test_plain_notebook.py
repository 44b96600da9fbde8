"""A notebook that only imports workbench: tasks print under the cell that submitted them."""

from __future__ import annotations

from tests.kernel.conftest import Kernel
from tests.kernel.gates import Gate


def test_prints_are_under_the_cell_that_submitted(kernel: Kernel, gate: Gate) -> None:
    kernel.ok("import workbench as wb\nimport sys\nwb.init(workers=1)")
    first = kernel.ok(
        "@wb.remote\n"
        "def speak(word):\n"
        f"    print(word)\n    print(word, file=sys.stderr)\n    {gate.wait}\n    print('end')\n"
        "ref = speak.remote('first')"
    )
    kernel.until(lambda: "first\n" in first.text())
    other = kernel.ok("print('another cell')")
    gate.open()
    last = kernel.ok("wb.get(ref)\nprint('got')")
    kernel.until(lambda: "end\n" in first.text())
    assert first.text() == "first\nend\n"
    assert first.text("stderr") == "first\n"
    assert (other.text(), last.text()) == ("another cell\n", "got\n")
    kernel.ok("wb.shutdown()")


def test_they_can_be_turned_off_with_the_extension_too(kernel: Kernel) -> None:
    kernel.ok("import workbench as wb\nwb.init(workers=1, log_to_driver=False)")
    kernel.ok("say = wb.remote(lambda word: print(word))")
    assert kernel.ok("wb.get(say.remote('nobody wants this'))").text() == ""
    kernel.ok("%load_ext workbench")
    assert kernel.ok("wb.get(say.remote('nor this'))").text() == ""
    cell = kernel.ok("%%remote -w\nprint('but a cell of mine')")
    assert cell.text() == "but a cell of mine\n"
    kernel.ok("wb.shutdown()")
