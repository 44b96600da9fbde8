"""What no cluster can do for a session, in words: what, why, and what to do instead."""

from __future__ import annotations

from workbench.engine.records import Abilities

CAN = Abilities(
    resident="A pinned object lives on, but may move to disk. The cluster decides itself what it "
    "moves there. Give it memory enough for what you use: on Ray by `object_store_memory`, where "
    "Ray starts; on Dask to its workers.",
    spill="An object can't be moved to disk by hand. The cluster does it when its memory runs "
    "short. Let go of what you don't need (`%free`).",
    holders="`%why` tells of the process that asks. Nobody counts who else has an object. Ask in "
    "the other notebook too, or by `wb.why` in a task or an actor's method.",
    streams="Generators can't yield results one by one. A task has its results when it is over: "
    "what comes earlier is its output. Return a list, or ask for one object at the end: "
    '`num_returns="dynamic"`.',
    concurrency="An actor can't run several calls at a time. It runs them in its process's main "
    "thread, so that they can be stopped. Use several actors, or tasks; or leave out "
    "`max_concurrency` and `async`.",
    edited="Workers don't take up edited modules. They may be on other machines, without the "
    "file. Restart the session after editing one: `%workbench stop`, `%workbench start`.",
    recursive="A task can't be stopped without those that it has submitted. They end with it on a "
    "cluster. Stop it with them: leave out `recursive=False`.",
    serializers="A custom serializer is the process's that registers it. Whoever gets a value "
    "needs none: the deserializer travels with it. Call `register_serializer` in a task too, if "
    "its results need it.",
    huge_pages="Huge pages can't be asked for. Values lie in the cluster's own memory. Use a "
    "session of this machine, or leave them out.",
    cache="Results of cells can't be kept. The files are one machine's, and workers may be on "
    "others. Use a session of this machine, or `@remote(cache=True)`: each machine keeps its own.",
    max_calls="`max_calls` is ignored. Worker processes are the cluster's, and run calls of all "
    "functions. Free in the function itself what it holds (caches, a GPU's memory).",
)
