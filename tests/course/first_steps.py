"""Answers to the first notebook's exercises."""

from __future__ import annotations

from tests.course.answers import Answers, Wrong, almost

QUARTERS = "day = sum(sunlit(land, hour) for hour in quarters)"
DAY = f"{QUARTERS} / 4\n"

SHARE = "%%remote --map hour=range({})\nshare = sunlit(land, hour).mean()"

ANSWERS = Answers(
    guesses={
        "drawer": 'guess_drawer = "worker"',
        "submit": "guess_submit = measured_submit.answer",  # below 0.1 s on a quiet machine
        "shared": 'guess_shared = " Shared"',
    },
    right={
        "in_background": f"%%remote\n{DAY}",
        "bring_back": "%get day\nmost_sun = day.max()",
        "each_hour": SHARE.format("7, 18"),
        "repair": "%%remote --wait\nright = land[:, 1:]\nsteepest = (right - land[:, :-1]).max()",
    },
    wrong={
        "in_background": [
            Wrong("del day", "No background cell has assigned"),
            almost("%%remote --wait\nday = 5", "of type int, and no array like `land`"),
            almost("%%remote --wait\nday = sunlit(land, 12) * 1.0", "of sun on average"),
            Wrong(f"%%remote --wait\n{DAY}raise ValueError", "makes `day` has failed"),
            almost(f"%%remote --wait\n{QUARTERS}", "gets 40 hours, and this day has 10"),
        ],
        "bring_back": [
            Wrong("most_sun = day", "still a ref"),
            Wrong("kept, day, most_sun = day, None, 10", "is no array"),
            almost("day = 4 * wb.get(kept)\nmost_sun = day.max()", "gets 40 hours"),
            Wrong("day = kept\n%get day\nmost_sun = day", "is an array"),
            almost("most_sun = wb.put(day.max())", "is a ref"),
            Wrong("most_sun = day.mean()", "differs from that"),
        ],
        "each_hour": [
            Wrong("share = [sunlit(land, 12).mean()] * 11", "one hour only"),
            almost(SHARE.format("7, 17"), "ran 10 times"),
            almost(SHARE.format("0, 11"), "isn't what the hours"),
            Wrong("%%remote --map hour=range(7, 18)\nshare = hour / 0", "has failed"),
        ],
        "repair": [
            Wrong("steepest = 100", "has failed"),
            Wrong("steepest = float((land[:, 1:] - land[:, :-1]).max())", "comes from your kernel"),
            almost("%%remote --wait\nsteepest = (land[1:] - land[:-1]).max()", "the largest rise"),
        ],
    },
)
