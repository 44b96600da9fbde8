"""Answers to notebook 06."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost, edit

COVER = "self.cover = film[0]"
PICTURE = "thumbnail_of(wb.get(film)[-1])"

THREE = "plain, shown, pinned = [wb.put(fade()) for _ in range(3)]\n%spill plain shown pinned"

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
            Wrong("import gc; gc.collect()", "in this notebook: `thumbnail`"),
            almost(edit(PICTURE, "lambda: None"), "its last picture any more"),
            almost(edit("wb.get(film)", "wb.get(film).copy()"), r"keeps 11\.1 MB"),
        ],
        "loaded_back": [
            almost(edit("...", "pickle.load(logbook)"), "is the ref, and not the film"),
            almost("found = fade()", r"not the stored one: it has 11\.1 MB of its own"),
            Wrong("found = moth_in_file", "of type str"),
        ],
        "pickled_let_go": [
            Wrong("import gc; gc.collect()", "ref pickled at Cell In"),
            Wrong("%reset -f out", "ref pickled at Cell In"),
            Wrong("film = None", "ref pickled at Cell In"),
        ],
        "traceback_let_go": [
            Wrong("import gc; gc.collect()", r"`pictures` in brightest\(\), kept by"),
            Wrong("%reset -f out", r"`pictures` in brightest\(\), kept by"),
            almost("gc.disable()\n1 / 0", "refers only to itself"),
        ],
        "actor_let_go": [
            Wrong("import gc; gc.collect()", "arrays in Album: `Album.cover`"),
            almost(edit("del film", "del film\nwb.kill(album)"), "so is the album"),
            almost(edit(COVER, "pass"), "so is the cover: .* has no attribute"),
            almost(edit(COVER, f"{COVER}.tolist()"), "so is the cover: "),
            almost(edit(COVER, "self.cover = film.copy()[0]"), r"keeps 11\.1 MB in its own"),
        ],
        "moved": [
            Wrong("%spill plain", "On disk: 1 of 3 films. Still in memory: shown, pinned"),
            almost("del picture\n%spill shown", "On disk: 2 of 3.*: pinned"),
            Wrong(f"%unpin pinned\n{THREE}", "the film plain, shown, pinned no more"),
        ],
        "morning": [
            Wrong(f"{DONE}\ndel notes", r"4 of 5 films are still here, 44"),
            Wrong("kept, films = films, []", "`films` hasn't the ids of five films"),
            almost(
                "films = kept\n%free {films[0]} {' '.join(films[2:])}",
                r"One is left, 11\.1 MB: .*poster",
            ),
        ],
    },
    right={
        "output_let_go": PASTED,
        "slice_let_go": edit(PICTURE, "thumbnail_of(wb.get(film)[-1].copy())"),
        "loaded_back": edit("...", "wb.get(pickle.load(logbook))"),
        "pickled_let_go": "%free $moth_in_file",
        "traceback_let_go": "import gc\ngc.enable()\ngc.collect()",
        "actor_let_go": edit(COVER, f"{COVER}.copy()"),
        "moved": THREE.replace("%", "three = [film.hex() for film in (plain, shown, pinned)]\n%"),
        "morning": "del poster",
    },
)
