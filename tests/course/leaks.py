"""Answers to notebook 06: leaks.txt."""

from __future__ import annotations

from tests.course.answers import read

COVER = "self.cover = film[0]"
PICTURE = "thumbnail_of(wb.get(film)[-1])"

ANSWERS = read(__file__, globals())
