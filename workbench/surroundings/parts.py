"""All parts of a process's settings."""

from __future__ import annotations

import functools

from workbench.surroundings.interpreter import contextual, interpreter
from workbench.surroundings.libraries import libraries
from workbench.surroundings.modules import modules
from workbench.surroundings.seeding import generators
from workbench.surroundings.settings import Part


@functools.cache
def parts() -> dict[str, Part]:
    return {
        each.name: each
        for each in (*interpreter(), *libraries(), contextual(), modules(), generators())
    }
