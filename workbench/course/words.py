"""Sentences of the course as templates with values, so that another language can say them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Words = Mapping[str, str]
"""English template → the same in another language. Empty: English."""

ENGLISH: Words = {}


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: an English template, and what stands in its braces (nothing: they are text)."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def within(self, words: Words) -> str:
        """In the language of these words; a template that they don't have stays English."""
        values = {
            name: value.within(words) if isinstance(value, Said) else value
            for name, value in self.values.items()
        }
        said = words.get(self.template, self.template)
        return said.format_map(values) if values else said  # without values braces are braces

    def __str__(self) -> str:
        return self.within(ENGLISH)


def say(template: str, **values: Any) -> Said:
    """A sentence. The template is the key of its translations: one string, no f-string."""
    return Said(template, values)
