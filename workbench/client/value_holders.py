"""What keeps a value that isn't stored, and what each holder would free: an answer of `%why`."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.client.reference_graph import ALL
from workbench.client.referrer_search import ReferrerSearch, searching
from workbench.client.retained import LARGE, Retained
from workbench.client.search_budget import SearchBudget
from workbench.core.descriptions import ValueAccount, ValueHolder
from workbench.expressions import describe

VALUE, PART = "value", "part"
RUN = ("thread", "task", "call", "runs", "cell")
MOST_PARTS, LEAST_PART = 3, 0.01
"""Parts that others hold, too: so many are searched for, if they are so much of the value."""


def holders_of(box: list[Any], deep: bool = False) -> ValueAccount:
    """Answer `queries.Keepers`."""

    def find() -> ValueAccount:
        with searching({VALUE: box.pop()}, {}, SearchBudget(deep)) as search:
            return _account(search)

    with ThreadPoolExecutor(1) as apart:  # what runs in this thread is looked at, too
        return apart.submit(find).result()


def _account(search: ReferrerSearch) -> ValueAccount:
    search.run()
    graph, target = search.graph, search.graph.targets[VALUE]
    what, arrow = describe(graph.nodes[target]), search.arrow_blocks()
    inside = Retained([graph.nodes[target]], search.held(), arrow, search.namespaces)
    own, shared, parts = _parts(inside, target)
    within, named = [*inside.things], {kind: inside.things[n] for kind, (n, _) in parts.items()}
    del inside  # the search would find it
    complete = search.go_on(named, within)
    del named
    found, held = search.places(complete), search.held() + graph.ours
    asked, needed = Counter[int](), graph.missing()
    asked[id(getattr(threading.current_thread(), "_invoke_excepthook", None))] = ALL
    if not graph.holders.get(target) and not graph.roots.get(target):  # made for the question
        found = tuple(each for each in found if each.place.kind != VALUE)
        asked[target] = ALL
    every = sum((each.ends for each in found), asked)
    begin = {target, *needed, *every, *graph.ours} & graph.nodes.keys() - graph.emptied
    stay = graph.emptied | search.namespaces.keys()
    memory = Retained(map(graph.nodes.__getitem__, begin), held, arrow, stay)
    holders = []
    for place, ends in found:
        others = every - ends
        alone = {n: number for n, number in ends.items() if number < ALL or not others[n]}
        frees, stays = memory.dead(asked | alone)
        goes = graph.targets[place.kind] not in stays
        _, part = parts.get(place.kind, (0, 0))
        holders.append(ValueHolder(place, frees, goes, part))
    if any(place.keeper in RUN for place, _ in found):
        every.update(dict.fromkeys(needed, ALL))  # also what their code is about to use
    together = memory.dead(every)[0]
    complete &= memory.complete
    size, seen = own + shared, search.looked_at
    return ValueAccount(what, size, shared, tuple(holders), together, complete, seen)


def _parts(inside: Retained, target: int) -> tuple[int, int, dict[str, tuple[int, int]]]:
    """Return the bytes that the value has alone, those that others hold, too, and the largest such
    parts: by kind, the object's id and the bytes."""
    own, stays = inside.dead({target: ALL - 1})
    if target in stays:  # by what is in it: those are its own holders
        return inside.dead(dict.fromkeys(inside.things, ALL))[0], 0, {}
    shared = inside.shared(stays)
    least = max(LARGE, LEAST_PART * (own + shared.total()))
    largest = [each for each in shared.most_common(MOST_PARTS) if each[1] >= least]
    return own, shared.total(), {f"{PART} {part[0]}": part for part in largest}
