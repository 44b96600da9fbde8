"""What a session on Ray can't: said where it would be used, and listed by `%workbench`."""

from __future__ import annotations

from workbench.engine.records import Abilities, Lack

CAN = Abilities(
    resident=Lack(
        "A pinned object lives on, but may move to disk.",
        "Ray's store decides itself what it moves there.",
        "Give the store memory enough for what you use: `object_store_memory`, where Ray starts.",
    ),
    spill=Lack(
        "An object can't be moved to disk by hand.", "Ray's store does it when it is full.",
        "Let go of what you don't need (`%free`).",
    ),
    holders=Lack(
        "`%why` tells of the process that asks.", "Nobody counts who else has an object.",
        "Ask in the other notebook too, or by `wb.why` in a task or an actor's method.",
    ),
    streams=Lack(
        "Generators can't yield results one by one.",
        "A task has its results when it is over: what comes earlier is its output.",
        'Return a list, or ask for one object at the end: `num_returns="dynamic"`.',
    ),
    concurrency=Lack(
        "An actor can't run several calls at a time.",
        "It runs them in its process's main thread, so that they can be stopped.",
        "Use several actors, or tasks; or leave out `max_concurrency` and `async`.",
    ),
    edited=Lack(
        "Workers don't take up edited modules.", "They may be on other machines, without the file.",
        "Restart the session after editing one: `%workbench stop`, `%workbench start`.",
    ),
    max_calls=Lack(
        "`max_calls` is ignored.",
        "Worker processes are Ray's, and run calls of all functions.",
        "Free in the function itself what it holds (caches, a GPU's memory).",
    ),
    recursive=Lack(
        "A task can't be stopped without those that it has submitted.",
        "They end with it on a cluster.", "Stop it with them: leave out `recursive=False`.",
    ),
    serializers=Lack(
        "A custom serializer is the process's that registers it.",
        "Whoever gets a value needs none: the deserializer travels with it.",
        "Call `register_serializer` in a task too, if its results need it.",
    ),
    huge_pages=Lack(
        "Huge pages can't be asked for.", "Ray's store is Ray's.", "Set them up where Ray starts.",
    ),
)  # fmt: skip

ENDS_WITH_KERNEL = Lack(
    "Names and background cells end with this kernel.",
    "It has started this Ray itself, which ends with it.",
    "Start Ray apart (`ray start --head`) and take `--address auto`, or take a session of this "
    "machine.",
)
"""Why a session on a Ray of our own isn't kept (``keep``)."""
