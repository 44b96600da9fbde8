"""How a run asks for its result, facts on a stored one, and what became of a request."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from workbench.result_cache.conditions import Conditions
from workbench.result_cache.fingerprints import Fingerprint

Shown = tuple[str, bytes, str]
"""Something that a run showed: its kind, its content, and the key of a display that is updated."""


class ResultFacts(msgspec.Struct, frozen=True):
    """Facts on a stored result.

    Parameters
    ----------
    when : float
        When it was made: seconds since 1970.
    seconds : float
        How long that took.
    conditions : Conditions
        What has to be as it was then.
    unchecked : list of str
        What it may depend on besides, in words.
    class_ids : list of str
        Ids of the classes in the inputs, then.
    draws_from : str
        Digest of the state from which it drew random numbers, if it did, and nobody gave a seed.
    """

    when: float
    seconds: float
    conditions: Conditions
    unchecked: list[str]
    class_ids: list[str]
    draws_from: str = ""


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """How a run asks for its result.

    Parameters
    ----------
    directory, limit : str, int
        See `ResultCache`.
    facts : str
        Digest of all facts about its code.
    inputs : dict
        Digests of its inputs by name; of those that are ``pending`` it is known where it runs.
    pending : tuple of str
        Names.
    key : str
        The result's, if that was found already.
    trusts : bool
        True: what has changed outside doesn't count.
    cwd : str
        The working directory.
    reads : tuple of str
        Files that it depends on.
    texts : tuple of str
        Values of its inputs that may name files.
    draws_from : str
        Digest of the state from which it draws random numbers, if nobody gave a seed.
    """

    directory: str
    limit: int
    facts: str = ""
    inputs: dict[str, Fingerprint] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    key: str = ""
    trusts: bool = False
    cwd: str = "/"
    reads: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    draws_from: str = ""


@dataclass(frozen=True, slots=True)
class FromCache:
    """What became of a request: the result was ``found``, or not stored (``why``).

    ``changed``: there was one, but these files, directories or packages are others now.
    ``same_draws``: it drew the random numbers that this run would have drawn, or none.
    """

    found: ResultFacts | None = None
    why: str = ""
    changed: tuple[str, ...] = ()
    same_draws: bool = True
