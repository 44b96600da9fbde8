"""Answers to notebook 01: first_steps.txt."""

from __future__ import annotations

from tests.course.answers import read

ANSWERS = read(__file__, {})
