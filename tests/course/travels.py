"""The answers to the exercises of notebook 04."""

from __future__ import annotations

from tests.course.answers import Answers, Edit, Wrong, almost, edit

EVERY = "[codes[start : start + 100_000] for start in range(0, 20_000, 1000)]"


def windows(every: str, one: str) -> Edit:
    """A table of windows, and what a function gives as one."""
    return edit(EVERY, every, "return windows[number]", f"return {one}")


def search(stored: str, given: str, arguments: str = "query, letters") -> Edit:
    """What is stored, and a task that searches the letters it is given."""
    return edit("@wb", f"{stored}\n@wb", "(query)", f"({arguments})", '"CAT FACE"', given)


STORED = "stored = wb.put(letters)"


def look_up(arguments: str, given: str) -> str:
    """A task that looks up a name, defined once for all queries."""
    return f"""
stored_names = wb.put(names)


@wb.remote
def look_up({arguments}):
    return names.index(query)


calls = [look_up.remote({given}) for query in queries]
found_rows = wb.get(calls)
"""


ANSWERS = Answers(
    guesses={
        "stream": 'guess_stream = "about 100"',
        "ninety-nine": 'guess_ninety_nine = "1 MB"',
        "view": 'guess_view = "copy"',
        "lists": 'guess_lists = "same object"',
        "function": "guess_function = 21",
        "slice": 'guess_slice = "the slice"',
        "prices": "guess_prices = measured_prices.answer",  # as the clock has it
    },
    right={
        "lean_parcel": 'parcel = {"codes": codes, "unicode": "15"}\n%put parcel',
        "windows_once": windows("codes", "windows[1000 * number : 1000 * number + 100_000]"),
        "light_function": search(
            STORED, '"CAT FACE", stored)\ncall = search.remote("CAT FACE", stored'
        ),
        "one_function": look_up("query, names", "query, stored_names"),
        "cheap_table": (
            'texts = dict.fromkeys(("word", "way", "kind"), "category")\n'
            "signs = signs.astype(texts)\n%put signs"
        ),
    },
    wrong={
        "lean_parcel": [
            Wrong('parcel = {"codes": tuple(codes.tolist())}\n%put parcel', "are pickled"),
            almost('parcel = {"codes": codes[:10]}\n%put parcel', "not all numbers"),
            almost(
                'parcel = {"codes": codes.tolist()}\n%put parcel\nparcel = {"codes": codes}',
                "still the old",
            ),
            Wrong("%free parcel", "has no `parcel`"),
        ],
        "windows_once": [
            Wrong(
                windows(
                    "np.lib.stride_tricks.sliding_window_view(codes, 100_000)[:20000:1000]",
                    "windows[number]",
                ),
                r"have 16 MB",
            ),
            almost(windows("codes", "windows[number : number + 100_000]"), "gives other numbers"),
            almost(
                windows("range(0, 20_000, 1000)", "codes[windows[number] :][:100_000]"),
                "reads 1.11 MB of your notebook besides",
            ),
        ],
        "light_function": [
            Wrong(search("", '"CAT FACE"', "query"), r"2\d(\.\d)? MB were sent .*`search`\."),
            Wrong(
                search("%put letters", '"CAT FACE"', "query"), "though `letters` is in the store"
            ),
            almost(search(STORED, '"CAT FACE", letters'), "each call stores it"),
            almost(
                edit(*search("", '"CAT FACE", letters').changes, "(call)", f"(call)\n{STORED}"),
                "each call stores it",
            ),
            almost(
                search("%free letters\ndel stored", '"CAT FACE", letters'),
                "each call stores it",
            ),
            almost(search(STORED, '"CAT", stored'), "not the row"),
        ],
        "one_function": [
            almost(look_up("query", "query"), "went along"),
            almost(look_up("query, names", "query, names"), r"between the calls \(2 objects\)"),
            almost(
                look_up("query, names", "query, stored_names") + "found_rows = found_rows[:1]",
                "aren't the rows",
            ),
            Wrong("del look_up, look_ups", "none of that name was called"),
        ],
        "cheap_table": [
            Wrong('less = signs.drop(columns="word")\n%put --name signs less', "lost the column"),
            Wrong('less = signs.assign(word="x")\n%put --name signs less', "column `word`"),
            Wrong(
                'less = signs.assign(way=pd.factorize(signs["way"])[0])\n%put --name signs less',
                "texts of the column `way`",
            ),
            almost(
                'signs["word"] = signs["word"].astype("category")\n%put signs',
                "the texts of `way` and `kind`",
            ),
        ],
    },
)
