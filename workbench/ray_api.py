"""Parts of Ray's API that ours lacks: harmless values, and what to do instead. Tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# -- names -----------------------------------------------------------------------------------------

_CLUSTER = "There is one machine, or a cluster that places tasks itself"
_ONE_MACHINE = f"{_CLUSTER}: `snapshot().workers` says where each worker is."
_NO_GROUPS = f"{_CLUSTER}: `num_cpus` says what one needs."
_SESSIONS = (
    '`init(session=...)` joins a session by its name, `init("ray://host:10001")` connects to a '
    "cluster."
)


def _by_name(sentences: Mapping[str, str]) -> Mapping[str, str]:
    """Return each name with its sentence; names of the same one are in one key."""
    return {name: said for names, said in sentences.items() for name in names.split()}


IN_RAY = _by_name(
    {
        "ActorClassID ActorID ClusterID FunctionID JobID NodeID TaskID UniqueID WorkerID": (
            "Ids are texts: `ref.hex()`, and what `get_runtime_context()` says."
        ),
        "ClientBuilder": _SESSIONS,
        "LOCAL_MODE SCRIPT_MODE WORKER_MODE": "`init()` takes no mode.",
        "Language cpp_function java_actor_class java_function": "Workbench runs Python only.",
        "PlacementGroupID": _NO_GROUPS,
        "autoscaler nodes": _ONE_MACHINE,
        "cloudpickle": "`import cloudpickle`.",
        "dag": "Chain `.remote()` calls: a ref among the arguments stands for its object.",
        "data rllib serve train tune workflow": "Ray's libraries need Ray.",
        "get_gpu_ids": ("Workbench shares out processors, not GPUs: a task may use all there are."),
        "internal": "`free(refs)` is in `workbench` itself.",
        "job_config": "`init(runtime_env=...)` says with which variables workers start.",
        "runtime_env": "A dict will do: `runtime_env={'env_vars': {...}}`.",
        "show_in_dashboard": "What a task prints appears under its cell.",
        "timeline": "`plot_timeline()` draws it, `snapshot().to_json()` keeps it.",
    }
)
"""Sentences by name in the module ``ray``."""

IN_UTIL = _by_name(
    {
        "ActorGroup": "Make a list of actors, or an `ActorPool`.",
        "accelerators get_current_placement_group get_placement_group placement_group "
        "placement_group_table remove_placement_group scheduling_strategies": _NO_GROUPS,
        "collective": "Exchange arrays by `put` and `get`: nobody copies them.",
        "connect": _SESSIONS,
        "dask": "Workbench runs no Dask graphs.",
        "debugpy pdb ray_debugpy": (
            "Call the plain function here, to debug it: `f._function(...)`."
        ),
        "disable_log_once_globally enable_periodic_logging log_once": (
            "Leave it out: Python's `logging` does that."
        ),
        "disconnect": "`shutdown()` leaves the session.",
        "get_node_ip_address": _ONE_MACHINE,
        "iter": "`map(fn, items)`, or tasks that yield.",
        "joblib": '`joblib.parallel_config("workbench")`, with nothing to register in notebooks.',
        "metrics": "`snapshot()` has the session's figures.",
        "multiprocessing": "`workbench.Pool` has the interface of multiprocessing's.",
        "spark": "Workbench starts no Spark.",
        "state": (
            "`snapshot()` has tasks, actors, workers and objects; `workbench ps` lists sessions."
        ),
        "tracing": "`plot_timeline()` draws what ran when.",
    }
)
"""Sentences by name in ``ray.util``."""

IN_CONTEXT = _by_name(
    {
        "current_placement_group_id get_placement_group_id "
        "should_capture_child_tasks_in_placement_group": _NO_GROUPS,
        "gcs_address": "There is one machine; nothing listens on the network.",
        "get_accelerator_ids get_resource_ids": IN_RAY["get_gpu_ids"],
        "get_node_labels": _ONE_MACHINE,
        "get_runtime_env_string runtime_env": "`os.environ` has the variables that it set.",
        "get_session_name": "`get_job_id()` is the session's unique name.",
        "get_task_function_name": "`get_task_name()` is the function's, if no other was given.",
        "worker_id": "`get_worker_id()` is the worker's number.",
    }
)
"""Sentences by name in Ray's ``RuntimeContext``."""

IN_FAILURES = _by_name(
    {
        "name": "`path` is the whole expression for it.",
        "obj parent": "An inspection keeps nothing alive: `path` is the expression for it.",
    }
)
"""Sentences by name in what Ray's ``inspect_serializability`` finds."""

IN_EXCEPTIONS = _by_name(
    {
        "ActorPlacementGroupRemoved ActorUnschedulableError AsyncioActorExit CrossLanguageError "
        "LocalRayletDiedError NodeDiedError ObjectFetchTimedOutError PlasmaObjectNotAvailable "
        "RpcError TaskPlacementGroupRemoved": "Nothing here raises it: leave it out.",
        "ObjectReconstructionFailedError ObjectReconstructionFailedLineageEvictedError "
        "ObjectReconstructionFailedMaxAttemptsExceededError ReferenceCountingAssertionError": (
            "It is an ObjectLostError here."
        ),
        "ObjectRefStreamEndOfStreamError": "A stream's end is StopIteration, as a generator's.",
        "OwnerDiedError": "Objects belong to the session, not to who made them: leave it out.",
        "PendingCallsLimitExceeded": "Any number of calls may wait: leave it out.",
        "RuntimeEnvSetupError": "A runtime_env that can't be had is a ValueError, at once.",
        "TaskUnschedulableError": "A task that can never run is a ValueError, at once.",
        "UserCodeException": "It is a TaskError here.",
    }
)
"""Sentences by name in ``ray.exceptions``."""


def missing(owner: str, name: str, table: Mapping[str, str]) -> AttributeError:
    """Return the error of an object that lacks a name; it says what to do, if the name is Ray's.

    ``owner``: as Python names it, ``module 'workbench'``.
    """
    instead = f". {table[name]}" if name in table else ""
    return AttributeError(f"{owner} has no attribute {name!r}{instead}")


# -- options ---------------------------------------------------------------------------------------

_PLACED = f"{_CLUSTER}: leave it out."

Lacking = Mapping[str, tuple[tuple[Any, ...], str]]
"""Values of each option that change nothing here; and for all others a sentence on what to do
instead."""

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
    "accelerator_type": ((), _PLACED),
    "label_selector": (({},), _PLACED),
    "scheduling_strategy": (("DEFAULT", "SPREAD"), _PLACED),
    "placement_group": (("default",), f"{_PLACED} num_cpus says how much it takes."),
    "placement_group_bundle_index": ((-1,), _PLACED),
    "placement_group_capture_child_tasks": ((False,), _PLACED),
    "fallback_strategy": (([],), _PLACED),
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
        '"auto" is the session that this process is in. `init(session=...)` joins the one of that '
        'name, or starts it; `init(address=...)` joins the one whose `init()["address"]` that is. '
        'One of a Ray cluster: `init(engine="ray", address=...)`.',
    ),
    "num_gpus": OF_TASKS["num_gpus"],
    "resources": OF_TASKS["resources"],
    "labels": (({},), _PLACED),
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
    """True if an option that Workbench lacks has a value that changes nothing.

    False if Workbench has the option; ValueError for any other value.
    """
    if key not in lacking:
        return False
    harmless, instead = lacking[key]
    kind = isinstance(value, bool)  # False isn't 0
    if value is None or any(isinstance(v, bool) is kind and v == value for v in harmless):
        return True
    raise ValueError(f"{key}={value!r} can't be had here. {instead}")
