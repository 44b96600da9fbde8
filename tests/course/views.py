"""Answers to notebook 03: views.txt."""

from __future__ import annotations

from tests.course.answers import read

ANSWERS = read(__file__, {})
