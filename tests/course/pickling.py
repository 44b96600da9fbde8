"""The answers to the exercises of notebook 05."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong

LOGBOOK = """
class Logbook:
    def __init__(self, notes=()):
        self.notes = list(notes)
        {lock}

    def __reduce__(self):
        return {made}


logbook = Logbook(["saw a SNOWMAN", "saw an UMBRELLA"])
%put logbook
"""
LOCK = "self.lock = threading.Lock()"

SIGNS = """
wb.register_serializer(
    sqlite3.Connection, serializer=lambda connection: {packed}, deserializer=lambda data: {unpacked}
)
%put signs
"""

NOT_PUT = SIGNS.replace("%put signs\n", "")

PARCEL = """
class Parcel:
    def __init__(self, recorder):
        self.recorder = recorder

    def __reduce__(self):
        return {made}


parcel = Parcel(recorder)
%put parcel
"""

HOME = """
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


home = {home}
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
        "find_it": "culprit = wb.inspect_serializability(shelf, 'shelf').failures[0].path",
        "lock_in_a_class": LOGBOOK.format(lock=LOCK, made="Logbook, (self.notes,)"),
        "connection": SIGNS.format(packed="str(database)", unpacked="sqlite3.connect(data)"),
        "in_its_place": "wb.deregister_serializer(Recorder)\n"
        + PARCEL.format(made="Recorder, (self.recorder.notes,)"),
        "a_home": HOME.format(add="pass", home="Home.remote()"),
    },
    wrong={
        "find_it": [
            Wrong("culprit = shelf", "of type dict"),
            Wrong("culprit = 'the SNOWMAN'", "is no path"),
            Wrong("culprit = 'shelf'", "as a whole is more than the one part", "almost"),
            Wrong("culprit = \"shelf['SNOWMAN']\"", "can be pickled, or isn't there"),
            Wrong(
                "culprit = wb.inspect_serializability(shelf, 'shelf').failures[0].path\n"
                "culprit = culprit.removesuffix(\"['file']\")",
                "more than the one part",
                "almost",
            ),
        ],
        "lock_in_a_class": [
            Wrong("%put logbook", "`logbook.lock` can't be pickled"),
            Wrong(
                LOGBOOK.format(lock=LOCK, made="Logbook, (self.notes,)").replace("%put", "# %put"),
                "isn't in the store yet",
                "almost",
            ),
            Wrong(LOGBOOK.format(lock=LOCK, made="Logbook, ()"), "has 0 notes", "almost"),
            Wrong(
                LOGBOOK.format(lock=LOCK, made="Logbook, (self.notes,)").replace("%put", "# %put"),
                r"`logbook` would come back right now\. The stored one is an older one",
                "almost",
            ),
            Wrong(LOGBOOK.format(lock="", made="Logbook, (self.notes,)"), "no lock", "almost"),
            Wrong(LOGBOOK.format(lock=LOCK, made="Logbook, (1, 2, 3)"), "but not built again"),
            Wrong(
                LOGBOOK.format(lock=LOCK, made="Logbook, (self.notes,)").replace("%put", "# %put"),
                "The stored one is an older one",
                "almost",
            ),
        ],
        "connection": [
            Wrong(SIGNS.format(packed="str(database)", unpacked="data"), "no connection"),
            Wrong("%free signs", "has no `signs`"),
            Wrong(
                SIGNS.format(packed="connection", unpacked="data"),
                "`signs` can't be pickled: what the serializer .* contains the Connection itself",
            ),
            Wrong(
                SIGNS.format(packed="':memory:'", unpacked="sqlite3.connect(data)"),
                "no such table",
                "almost",
            ),
            Wrong(
                NOT_PUT.format(packed="str(database)", unpacked="sqlite3.connect(data)"),
                r"`signs` would come back right now\. The stored one is an older one",
                "almost",
            ),
            Wrong(
                SIGNS.format(packed="str(database)", unpacked="sqlite3.connect(data)")
                + NOT_PUT.format(packed="str(database)", unpacked="data"),
                "no connection",
            ),
            Wrong("connection, signs = signs, str(database)\n%put signs", "`signs` is of type str"),
            Wrong("signs = sqlite3.connect(database)\nsigns.close()", "can't be read .*closed"),
            Wrong(
                "signs = connection\n"
                + SIGNS.format(packed="str(database)", unpacked="[sqlite3.connect(data)]"),
                "no connection",
            ),
        ],
        "in_its_place": [
            Wrong(
                "%free parcel\nwb.put(..., name='parcel')\nparcel = recorder",
                r"still `\.\.\.`|还是 `\.\.\.`",
            ),
            Wrong("parcel = recorder.notes\n%put parcel", "of type list"),
            Wrong(PARCEL.format(made="Recorder, ([],)") + "parcel = recorder",
                  r"`parcel\.lock` can't be pickled"),
            Wrong(PARCEL.format(made="Recorder, ([],)"), "other notes", "almost"),
            Wrong(
                PARCEL.format(made="Recorder, (self.recorder.notes,)").replace("%put", "# %put"),
                "The stored one is an older one",
                "almost",
            ),
            Wrong(
                PARCEL.format(made="Recorder, (self.recorder.notes,)")
                + PARCEL.format(made="Recorder, ([],)").replace("%put", "# %put"),
                "other notes",
                "almost",
            ),
            Wrong(
                "wb.register_serializer(Recorder, serializer=lambda one: one.notes,"
                " deserializer=lambda notes: Recorder(notes))\nparcel = recorder\n%put parcel\n",
                "about one object",
                "almost",
            ),
        ],
        "a_home": [
            Wrong(
                HOME.format(add="pass", home="Home()").replace("@wb.remote", ""),
                "no worker can call it",
            ),
            Wrong(HOME.format(add="pass", home="Home.remote()").replace("Home", "House"),
                  "no actor of the class `Home`"),
            Wrong(HOME.format(add="pass", home="Home"), "No actor runs yet", "almost"),
            Wrong(HOME.format(add="self.connect()", home="Home.remote()"), "counts 1 more",
                  "almost"),
        ],
    },
)  # fmt: skip
