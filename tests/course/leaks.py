"""Answers to notebook 06."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

ALBUM = """
@wb.remote
class Album:
    def add(self, film):
        self.cover = film[0]{}

    def size(self):
        return self.cover.nbytes


album = Album.remote()
film = wb.put(fade())
moth_in_album = film.hex()
wb.get(album.add.remote(film))
del film
{}
"""

THUMBNAIL = """
film = wb.put(fade())
moth_in_slice = film.hex()
thumbnail = {}
del film
"""

# What a person pastes: the code that `%why` shows.
PASTED = """
for reason in wb.why(moth, deep=True).reasons:
    get_ipython().run_cell(reason.code)
"""

# The actor of the last exercise has its film, however slowly its process began.
DONE = "while any(actor.calls for actor in wb.snapshot().actors): pass"

ANSWERS = Answers(
    guesses={
        "output": "guess_output = 11",
        "slice": "guess_slice = 11",
        "pickled": "guess_pickled = 11",
        "traceback": "guess_traceback = 11",
        "actor": "guess_actor = 11",
        "dead": "guess_dead = 0",
        "spill": "guess_spill = 1",
    },
    wrong={
        "output_let_go": [
            Wrong("import gc; gc.collect()", r"11\.1 MB are still .*arrays in this notebook"),
            Wrong("%free $moth", "still in the store"),
            Wrong("kept, moth = moth, 3", "`moth` is the id of no object"),
            Wrong("moth = f'{int(kept, 16) + 10**6:016x}'", "the id of no object"),
            Wrong("moth = kept", "still in the store"),
        ],
        "slice_let_go": [
            Wrong("import gc; gc.collect()", r"thumbnail\.__closure__"),
            almost(THUMBNAIL.format("lambda: None"), "no picture"),
            almost(THUMBNAIL.format("None"), "no picture"),
        ],
        "pickled_let_go": [Wrong("import gc; gc.collect()", "ref pickled at Cell In")],
        "traceback_let_go": [
            Wrong("import gc; gc.collect()", r"`pictures` in brightest\(\), kept by"),
            almost("gc.disable()\n1 / 0", "refers only to itself"),
        ],
        "actor_let_go": [
            Wrong("import gc; gc.collect()", "arrays in Album: `Album.cover`"),
            almost(ALBUM.format("", "wb.kill(album)"), "so is the album"),
        ],
        "moved": [
            Wrong("%spill plain", "On disk: 1 of 3 films. Still in memory: shown, pinned"),
            almost("del picture\n%spill shown", "On disk: 2 of 3.*: pinned"),
            Wrong("%unpin pinned\n%free plain", "no film of plain any more"),
        ],
        "morning": [
            Wrong(f"{DONE}\ndel notes", r"4 of 5 films are still here, 44"),
            almost("%free title\ndel poster, drawer", "One is left, .*ref pickled at"),
        ],
    },
    right={
        "output_let_go": PASTED,
        "slice_let_go": THUMBNAIL.format("thumbnail_of(wb.get(film)[-1].copy())"),
        "pickled_let_go": "%free $moth_in_file",
        "traceback_let_go": "import gc\ngc.enable()\ngc.collect()",
        "actor_let_go": ALBUM.format(".copy()", ""),
        "moved": "plain, shown, pinned = [wb.put(fade()) for _ in range(3)]\n"
        "%spill plain shown pinned",
        "morning": "%free {films[2]}",
    },
)
