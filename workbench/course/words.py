"""Sentences of the course as templates with values, so that another language can say them."""

from __future__ import annotations

import gettext
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

Words = Callable[[str], str]
"""An English template → the same in another language; what that doesn't have stays English."""

ENGLISH: Words = str


def words_of(language: str) -> Words:
    """Return the words of the compiled catalog of this language, which lies beside this module."""
    with files("workbench.course").joinpath(f"{language}.mo").open("rb") as file:
        catalog = gettext.GNUTranslations(file)
    return lambda template: catalog.gettext(template) if template else ""  # "" has the headers


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: an English template, and what stands in its braces (nothing: they are text)."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def within(self, words: Words) -> str:
        """In the language of these words."""
        values = {
            name: value.within(words) if isinstance(value, Said) else value
            for name, value in self.values.items()
        }
        said = words(self.template)
        return said.format_map(values) if values else said  # without values braces are braces

    def __str__(self) -> str:
        return self.within(ENGLISH)


def say(template: str, **values: Any) -> Said:
    """A sentence. The template is the key of its translations: one string, no f-string."""
    return Said(template, values)
