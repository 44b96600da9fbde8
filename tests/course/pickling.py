"""Answers to notebook 05: pickling.txt."""

from __future__ import annotations

from tests.course.answers import Edit, edit, read

STORED = "Logbook, (self.notes,)"
LOCK = "self.lock = threading.Lock()"


def logbook(made: str, *changes: str, is_put: bool = True) -> Edit:
    """The class with a `__reduce__` that returns this, and a logbook of it."""
    put, note, last = "\n%put logbook" * is_put, "    def note", 'logbook.note("saw an UMBRELLA")'
    reduced = f"    def __reduce__(self):\n        return {made}\n\n{note}"
    return edit(note, reduced, last, last + put, *changes)


def signs(packed: str, unpacked: str, *, is_put: bool = True) -> str:
    """A serializer of connections."""
    return f"""
wb.register_serializer(
    sqlite3.Connection, serializer=lambda connection: {packed}, deserializer=lambda data: {unpacked}
)
{"%put signs" if is_put else ""}
"""


CONNECTS = "str(database)", "sqlite3.connect(data)"


def parcel(made: str, *, is_put: bool = True) -> str:
    """A class that stands for the recorder, and whose `__reduce__` returns this."""
    return f"""
class Parcel:
    def __init__(self, recorder):
        self.recorder = recorder

    def __reduce__(self):
        return {made}


parcel = Parcel(recorder)
{"%put parcel" if is_put else ""}
"""


NAME_OF = """
@wb.remote
def name_of(sign):
    return unicodedata.name(sign)

named = name_of.remote("{}")
"""

NOTES = "Recorder, (self.recorder.notes,)"

CLASS, ACTOR = "class Home", "@wb.remote\nclass Home"
ANEW = "def add(self, name):\n", "def add(self, name):\n        self.__init__()\n"

ANSWERS = read(__file__, globals())
