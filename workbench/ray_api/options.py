"""Ray's options that Workbench lacks: which values of them ask for nothing, what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ONE_MACHINE = "There is one machine, or a cluster that places tasks itself: leave it out."

Lacking = Mapping[str, tuple[tuple[Any, ...], str]]
"""By option: the values that ask for nothing, or for what is so here anyway, and for all others a
sentence that says what to do instead."""

OF_TASKS: Lacking = {
    "num_gpus": (
        (0,),
        "Workbench shares out processors, not GPUs. Leave it out, and a task may use every GPU of "
        "the machine; raise num_cpus, so that few run at a time.",
    ),
    "resources": (
        ({},),
        "Workbench shares out processors, and no resources of other names: raise num_cpus, so that "
        "fewer run at a time.",
    ),
    "accelerator_type": ((), _ONE_MACHINE),
    "label_selector": (({},), _ONE_MACHINE),
    "scheduling_strategy": (("DEFAULT", "SPREAD"), _ONE_MACHINE),
    "placement_group": (("default",), f"{_ONE_MACHINE} num_cpus says how much it takes."),
    "placement_group_bundle_index": ((-1,), _ONE_MACHINE),
    "placement_group_capture_child_tasks": ((False,), _ONE_MACHINE),
    "fallback_strategy": (([],), _ONE_MACHINE),
    "enable_tensor_transport": ((False,), "Arrays are read from shared memory: leave it out."),
    "max_pending_calls": (
        (-1,),
        "Any number of calls may wait: leave it out, and `wait` for some before you submit more.",
    ),
    "enable_task_events": ((True, False), "True or False, it changes nothing here."),
    "object_store_memory": ((0,), "The store is one for all: `init(memory=...)` says how large."),
}
"""Options of tasks, actors and calls."""

_NO_DASHBOARD = "Leave it out: `dashboard()` shows the session, in a notebook."

OF_INIT: Lacking = {
    "address": (
        ("local",),
        "Sessions of this machine have names: `init(session=...)` joins the one of that name, or "
        'starts it; `init(address=...)` joins the one whose `init()["address"]` that is. One of a '
        'Ray cluster: `init(engine="ray", address=...)`.',
    ),
    "num_gpus": OF_TASKS["num_gpus"],
    "resources": OF_TASKS["resources"],
    "labels": (({},), _ONE_MACHINE),
    "local_mode": (
        (False,),
        "Tasks run in workers. To run one here, to debug it, call the plain function: "
        "`f._function(...)`.",
    ),
    "include_dashboard": ((False,), _NO_DASHBOARD),
    "dashboard_host": (("127.0.0.1", "localhost"), _NO_DASHBOARD),
    "dashboard_port": ((8265,), _NO_DASHBOARD),
    "configure_logging": ((True, False), "True or False, it changes nothing here."),
    "logging_level": ((), "Workbench writes no log of its own: leave it out."),
    "logging_format": (("",), "Workbench writes no log of its own: leave it out."),
    "logging_config": ((), "Workbench writes no log of its own: leave it out."),
    "job_config": ((), "Leave it out. `runtime_env` says with which variables workers start."),
    "storage": (("",), "Leave it out. `spill_dir` says where objects go that have no room."),
}
"""Options of `init`."""


def asks_nothing(key: str, value: Any, lacking: Lacking = OF_TASKS) -> bool:
    """Whether an option that Workbench lacks is given in vain.

    False if it doesn't lack that, ValueError if it is asked for.
    """
    if key not in lacking:
        return False
    harmless, instead = lacking[key]
    kind = isinstance(value, bool)  # False is no 0
    if value is None or any(isinstance(v, bool) is kind and v == value for v in harmless):
        return True
    raise ValueError(f"{key}={value!r} can't be had here. {instead}")
