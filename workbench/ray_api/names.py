"""Ray's public names that Workbench lacks: what to do instead. Its options: see `options`."""

from __future__ import annotations

from collections.abc import Mapping

_ONE_MACHINE = (
    "There is one machine, or a cluster that places tasks itself: `snapshot().workers` says where "
    "each worker is."
)
_NO_GROUPS = (
    "There is one machine, or a cluster that places tasks itself: `num_cpus` says what one needs."
)
_SESSIONS = (
    '`init(session=...)` joins a session by its name, `init("ray://host:10001")` connects to a '
    "cluster."
)
_PYTHON = "Workbench runs Python only."
_IDS = "Ids are texts: `ref.hex()`, and what `get_runtime_context()` says."
_MODES = "`init()` takes no mode."
_LIBRARY = "Ray's libraries need Ray."
_NOBODY = "Nothing here raises it: leave it out."
_NO_DEBUGGER = "Call the plain function here, to debug it: `f._function(...)`."
_LOGS = "Leave it out: Python's `logging` does that."

IN_RAY: Mapping[str, str] = {
    "ActorClassID": _IDS,
    "ActorID": _IDS,
    "ClientBuilder": _SESSIONS,
    "ClusterID": _IDS,
    "FunctionID": _IDS,
    "JobID": _IDS,
    "LOCAL_MODE": _MODES,
    "Language": _PYTHON,
    "NodeID": _IDS,
    "PlacementGroupID": _NO_GROUPS,
    "SCRIPT_MODE": _MODES,
    "TaskID": _IDS,
    "UniqueID": _IDS,
    "WORKER_MODE": _MODES,
    "WorkerID": _IDS,
    "autoscaler": _ONE_MACHINE,
    "cloudpickle": "`import cloudpickle`.",
    "cpp_function": _PYTHON,
    "dag": "Chain `.remote()` calls: a ref among the arguments stands for its object.",
    "data": _LIBRARY,
    "get_gpu_ids": "Workbench shares out processors, not GPUs: a task may use all there are.",
    "internal": "`free(refs)` is in `workbench` itself.",
    "java_actor_class": _PYTHON,
    "java_function": _PYTHON,
    "job_config": "`init(runtime_env=...)` says with which variables workers start.",
    "nodes": _ONE_MACHINE,
    "rllib": _LIBRARY,
    "runtime_env": "A dict will do: `runtime_env={'env_vars': {...}}`.",
    "serve": _LIBRARY,
    "show_in_dashboard": "What a task prints appears under its cell.",
    "timeline": "`plot_timeline()` draws it, `snapshot().to_json()` keeps it.",
    "train": _LIBRARY,
    "tune": _LIBRARY,
    "workflow": _LIBRARY,
}
"""By name in the module ``ray``."""

IN_UTIL: Mapping[str, str] = {
    "ActorGroup": "Make a list of actors, or an `ActorPool`.",
    "accelerators": _NO_GROUPS,
    "as_completed": "It is in `workbench` itself.",
    "collective": "Exchange arrays by `put` and `get`: nobody copies them.",
    "connect": _SESSIONS,
    "dask": "Workbench runs no Dask graphs.",
    "debugpy": _NO_DEBUGGER,
    "disable_log_once_globally": _LOGS,
    "disconnect": "`shutdown()` leaves the session.",
    "enable_periodic_logging": _LOGS,
    "get_current_placement_group": _NO_GROUPS,
    "get_node_ip_address": _ONE_MACHINE,
    "get_placement_group": _NO_GROUPS,
    "iter": "`map(fn, items)`, or tasks that yield.",
    "joblib": '`joblib.parallel_config("workbench")`, with nothing to register in notebooks.',
    "log_once": _LOGS,
    "metrics": "`snapshot()` has the session's figures.",
    "multiprocessing": "`workbench.Pool` has the interface of multiprocessing's.",
    "pdb": _NO_DEBUGGER,
    "placement_group": _NO_GROUPS,
    "placement_group_table": _NO_GROUPS,
    "ray_debugpy": _NO_DEBUGGER,
    "remove_placement_group": _NO_GROUPS,
    "scheduling_strategies": _NO_GROUPS,
    "spark": "Workbench starts no Spark.",
    "state": "`snapshot()` has tasks, actors, workers and objects; `workbench ps` lists sessions.",
    "tracing": "`plot_timeline()` draws what ran when.",
}
"""By name in ``ray.util``."""

IN_EXCEPTIONS: Mapping[str, str] = {
    "ActorPlacementGroupRemoved": _NOBODY,
    "ActorUnschedulableError": _NOBODY,
    "AsyncioActorExit": _NOBODY,
    "CrossLanguageError": _NOBODY,
    "LocalRayletDiedError": _NOBODY,
    "NodeDiedError": _NOBODY,
    "ObjectFetchTimedOutError": _NOBODY,
    "ObjectReconstructionFailedError": "It is an ObjectLostError here.",
    "ObjectReconstructionFailedLineageEvictedError": "It is an ObjectLostError here.",
    "ObjectReconstructionFailedMaxAttemptsExceededError": "It is an ObjectLostError here.",
    "ObjectRefStreamEndOfStreamError": "A stream's end is StopIteration, as a generator's.",
    "OwnerDiedError": "Objects belong to the session, not to who made them: leave it out.",
    "PendingCallsLimitExceeded": "Any number of calls may wait: leave it out.",
    "PlasmaObjectNotAvailable": _NOBODY,
    "ReferenceCountingAssertionError": "It is an ObjectLostError here.",
    "RpcError": _NOBODY,
    "RuntimeEnvSetupError": "A runtime_env that can't be had is a ValueError, at once.",
    "TaskPlacementGroupRemoved": _NOBODY,
    "TaskUnschedulableError": "A task that can never run is a ValueError, at once.",
    "UserCodeException": "It is a TaskError here.",
}
"""By name in ``ray.exceptions``."""


def missing(module: str, name: str, table: Mapping[str, str]) -> AttributeError:
    """The error of a module that lacks a name; it says what to do, if the name is Ray's."""
    instead = f". {table[name]}" if name in table else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{instead}")
