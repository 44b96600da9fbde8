"""Answers to notebook 10: clusters.txt."""

from __future__ import annotations

from tests.course.answers import read

ANSWERS = read(__file__, {})
