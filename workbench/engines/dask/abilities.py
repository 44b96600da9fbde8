"""What Dask can't do for a session, in words: what, why, and what to do instead."""

from __future__ import annotations

from workbench.engine.records import Abilities, Lack

# fmt: off
CAN = Abilities(
    resident=Lack("A pinned object lives on, but may move to disk.",
                  "Dask's workers decide themselves what they move there.",
                  "Give the workers memory enough for what you use."),
    spill=Lack("An object can't be moved to disk by hand.",
               "Dask's workers do it when their memory runs short.",
               "Let go of what you don't need (`%free`)."),
    holders=Lack("`%why` tells of the process that asks.", "Nobody counts who else has an object.",
                 "Ask in the other notebook too, or by `wb.why` in a task or an actor's method."),
    streams=Lack("Generators can't yield results one by one.",
                 "A task of Dask's has one result, when it is over.",
                 'Return a list, or ask for one object at the end: `num_returns="dynamic"`.'),
    restarts=Lack("`max_restarts` of an actor is ignored.",
                  "An actor lives in one process at one Dask worker, and ends with either.",
                  "Make it again, and keep what must last in the store (`put`) or in a file."),
    concurrency=Lack("An actor can't run several calls at a time.",
                     "It lives in one thread of a process, so that calls can be stopped.",
                     "Use several actors, or tasks; or leave out `max_concurrency` and `async`."),
    edited=Lack("Workers don't take up edited modules.",
                "They may be on other machines, without the file.",
                "Restart the session after editing one: `%workbench stop`, `%workbench start`."),
    max_calls=Lack("`max_calls` is ignored.",
                   "Worker processes are Dask's, and run calls of all functions.",
                   "Free in the function itself what it holds (caches, a GPU's memory)."),
    recursive=Lack("A task can't be stopped without those that it has submitted.",
                   "They end with it on a cluster.",
                   "Stop it with them: leave out `recursive=False`."),
    serializers=Lack("A custom serializer is the process's that registers it.",
                     "Whoever gets a value needs none: the deserializer travels with it.",
                     "Call `register_serializer` in a task too, if its results need it."),
    huge_pages=Lack("Huge pages can't be asked for.", "Values lie in the memory of Dask's workers.",
                    "Use a session of this machine, or leave them out."),
    needs=Lack("`num_cpus` and `memory` of tasks and actors are ignored.",
               "A task has one slot of a Dask worker, and an actor has none.",
               "Start Dask's workers with fewer threads: then fewer tasks run at a time on each."),
    elsewhere=Lack("An actor isn't made again when its Dask worker ends.",
                   "It ends with it, also when a cluster becomes smaller.",
                   "Make it again, and keep what must last in the store (`put`) or in a file."),
    once=Lack("`max_retries=0` doesn't keep a task from running twice.",
              "Dask itself runs again what a Dask worker had, or has made, when that worker dies.",
              "Have it see whether its work is done, or set Dask's `allowed-failures` to 0."),
)
# fmt: on
