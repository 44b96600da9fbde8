"""The answers to the exercises of notebook 05."""

from __future__ import annotations

from tests.course.answers import Answers, Edit, Wrong, almost, edit

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
CULPRIT = "culprit = wb.inspect_serializability(shelf, 'shelf').failures[0].path\n"


CLASS, ACTOR = "class Home", "@wb.remote\nclass Home"
ANEW = "def add(self, name):\n", "def add(self, name):\n        self.__init__()\n"

ANSWERS = Answers(
    guesses={
        "parts": 'guess_parts = "three"',
        "lock": 'guess_lock = "a lock of its own"',
        "registry": 'guess_registry = "every worker"',
        "again": 'guess_again = "the second"',
        "helper": 'guess_helper = "Stopwatch"',
        "home": 'guess_home = "two signs"',
    },
    right={
        "find_it": CULPRIT,
        "in_a_function": NAME_OF.format("☃"),
        "lock_in_a_class": logbook(STORED),
        "connection": signs(*CONNECTS),
        "in_its_place": "wb.deregister_serializer(Recorder)\n" + parcel(NOTES),
        "a_home": edit(CLASS, ACTOR, "home = Home()", "home = Home.remote()"),
    },
    wrong={
        "find_it": [
            Wrong("culprit = shelf", "of type dict"),
            Wrong("culprit = 'the SNOWMAN'", "is no path"),
            almost("culprit = 'shelf'", "as a whole is more than the one part"),
            Wrong("culprit = \"shelf['SNOWMAN']\"", "can be pickled, or isn't there"),
            almost(
                CULPRIT + "culprit = culprit.removesuffix(\"['file']\")", "more than the one part"
            ),
        ],
        "in_a_function": [
            Wrong("named = unicodedata.name('☃')", "`named` is no ref"),
            Wrong("named = wb.put('SNOWMAN')", "no task has made it"),
            Wrong(NAME_OF.format("☃☃"), r"The task has failed: name\(\) argument"),
            almost(NAME_OF.format("☂"), "answered, but with 'UMBRELLA'"),
        ],
        "lock_in_a_class": [
            Wrong("%put logbook", "`logbook.lock` can't be pickled"),
            almost(
                logbook(STORED, "logbook = Logbook()", ""), "as that was before: make `logbook`"
            ),
            almost(logbook(STORED, is_put=False), "isn't in the store yet"),
            almost(logbook("Logbook, ()"), "has 0 notes"),
            almost(
                logbook(STORED, is_put=False),
                r"come back right now\. The stored one is an older one",
            ),
            almost(logbook(STORED, LOCK, ""), "no lock"),
            Wrong(logbook("Logbook, (1, 2, 3)"), "but not built again"),
        ],
        "connection": [
            Wrong(signs("str(database)", "data"), "no connection"),
            Wrong("%free signs", "has no `signs`"),
            Wrong(signs("connection", "data"), "the serializer .* contains the Connection itself"),
            almost(signs("':memory:'", "sqlite3.connect(data)"), "no such table"),
            almost(
                signs(
                    "connection.serialize()",
                    "(c := sqlite3.connect(':memory:')).deserialize(data) or c",
                ),
                "not to the database in signs.db",
            ),
            almost(signs(*CONNECTS, is_put=False), "The stored one is an older one"),
            Wrong("connection, signs = signs, str(database)\n%put signs", "`signs` is of type str"),
            Wrong("signs = sqlite3.connect(database)\nsigns.close()", "can't be read .*closed"),
            Wrong(
                "signs = connection\n" + signs("str(database)", "[sqlite3.connect(data)]"),
                "no connection",
            ),
        ],
        "in_its_place": [
            Wrong(
                "%free parcel\nwb.put(..., name='parcel')\nparcel = recorder",
                r"still `\.\.\.`|还是 `\.\.\.`",
            ),
            Wrong("parcel = recorder.notes\n%put parcel", "of type list"),
            Wrong(parcel("Recorder, ([],)") + "parcel = recorder", "lock` can't be pickled"),
            almost(parcel("Recorder, ([],)"), "other notes"),
            almost(parcel(NOTES, is_put=False), "The stored one is an older one"),
            almost(parcel(NOTES) + parcel("Recorder, ([],)", is_put=False), "other notes"),
            almost(
                "wb.register_serializer(Recorder, serializer=lambda one: one.notes,"
                " deserializer=lambda notes: Recorder(notes))\nparcel = recorder\n%put parcel\n",
                "about one object",
            ),
        ],
        "a_home": [
            Wrong(edit("Home()", "wb.put(1)"), "no worker can call it"),
            Wrong(
                edit(CLASS, ACTOR, "Home()", "Home.remote()", "Home", "House"), "no actor of the"
            ),
            almost(edit(CLASS, ACTOR, "Home()", "Home"), "No actor runs yet"),
            almost(edit(CLASS, ACTOR, "Home()", "Home.remote()", *ANEW), "counts 1 more"),
        ],
    },
)
