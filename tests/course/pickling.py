"""The answers to the exercises of notebook 05."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

STORED = "Logbook, (self.notes,)"
LOCK = "self.lock = threading.Lock()"


def logbook(made: str, lock: str = LOCK, *, is_put: bool = True) -> str:
    """A class of logbooks whose `__reduce__` returns this."""
    return f"""
class Logbook:
    def __init__(self, notes=()):
        self.notes = list(notes)
        {lock}

    def __reduce__(self):
        return {made}


logbook = Logbook(["saw a SNOWMAN", "saw an UMBRELLA"])
{"%put logbook" if is_put else ""}
"""


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


NOTES = "Recorder, (self.recorder.notes,)"
CULPRIT = "culprit = wb.inspect_serializability(shelf, 'shelf').failures[0].path\n"


def home(made: str, add: str = "pass") -> str:
    """A class whose `add` begins with this, and what `home` is."""
    return f"""
@wb.remote
class Home:
    def __init__(self):
        self.connect()

    def connect(self):
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute("CREATE TABLE seen (name TEXT)")

    def add(self, name):
        {add}
        self.connection.execute("INSERT INTO seen VALUES (?)", (name,))

    def count(self, name):
        query = "SELECT count(*) FROM seen WHERE name = ?"
        return self.connection.execute(query, (name,)).fetchone()[0]


home = {made}
"""


ANSWERS = Answers(
    guesses={
        "parts": 'guess_parts = "three"',
        "lock": 'guess_lock = "a lock of its own"',
        "registry": 'guess_registry = "every worker"',
        "helper": 'guess_helper = "Stopwatch"',
        "home": 'guess_home = "two signs"',
    },
    right={
        "find_it": CULPRIT,
        "lock_in_a_class": logbook(STORED),
        "connection": signs(*CONNECTS),
        "in_its_place": "wb.deregister_serializer(Recorder)\n" + parcel(NOTES),
        "a_home": home("Home.remote()"),
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
        "lock_in_a_class": [
            Wrong("%put logbook", "`logbook.lock` can't be pickled"),
            almost(logbook(STORED, is_put=False), "isn't in the store yet"),
            almost(logbook("Logbook, ()"), "has 0 notes"),
            almost(
                logbook(STORED, is_put=False),
                r"come back right now\. The stored one is an older one",
            ),
            almost(logbook(STORED, lock=""), "no lock"),
            Wrong(logbook("Logbook, (1, 2, 3)"), "but not built again"),
        ],
        "connection": [
            Wrong(signs("str(database)", "data"), "no connection"),
            Wrong("%free signs", "has no `signs`"),
            Wrong(signs("connection", "data"), "the serializer .* contains the Connection itself"),
            almost(signs("':memory:'", "sqlite3.connect(data)"), "no such table"),
            almost(signs(*CONNECTS, is_put=False), "The stored one is an older one"),
            Wrong(signs(*CONNECTS) + signs("str(database)", "data", is_put=False), "no connection"),
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
            Wrong(home("Home()").replace("@wb.remote", ""), "no worker can call it"),
            Wrong(home("Home.remote()").replace("Home", "House"), "no actor of the class `Home`"),
            almost(home("Home"), "No actor runs yet"),
            almost(home("Home.remote()", add="self.connect()"), "counts 1 more"),
        ],
    },
)
