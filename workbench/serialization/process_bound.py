"""What belongs to one process as a whole (a thread, a socket, an open file): what to do instead.

By the names of classes, so that nothing is imported. Finds nothing inside of objects.
"""

from __future__ import annotations

import sys
import sysconfig
from typing import Any, NamedTuple


class Bound(NamedTuple):
    """What an object is that no other process can have, and what to do about it."""

    what: str
    """``a thread``, ``an open file``."""

    instead: str = "make it inside the task"

    @property
    def advice(self) -> str:
        return f"{self.what[0].upper()}{self.what[1:]} belongs to one process: {self.instead}."


_LOCK = Bound(
    "a lock",
    "make it inside the task, or leave it out in its owner's `__getstate__` and make a new one in "
    "`__setstate__`",
)
_QUEUE = Bound("a queue", "make it inside the task, and return what it had")
_THREADS = Bound("a thread")
_PROCESS = Bound("a running process", "start it inside the task")
_POOL = Bound("a pool of workers")
_FUTURE = Bound("a future", "wait for its result, and pass that")
_LOOP = Bound("an event loop")
_KERNEL = Bound("a kernel", "pass what you need of it")
_FILE = Bound("an open file", "pass its path, and open it inside the task")
_CONNECTION = Bound("a connection", "connect inside the task")
_SELECTOR = Bound("a list of open descriptors")
_RUN = Bound(
    "a run that is half-way through",
    "make a list of it, or call the function that makes it inside the task",
)
_PROGRAM = Bound(
    "a frame of a running program", "keep its text instead (`traceback.format_exception`)"
)
_CONTEXT = Bound("a context variable", "pass its value, and set it inside the task")
_WEAK = Bound("a weak reference", "pass what it refers to, or leave it out in `__getstate__`")
_ADDRESS = Bound("an address in memory", "pass what is there, as bytes or an array")
_DEVICE = Bound("a handle of a driver")
_HANDLER = Bound("a log handler", "set logging up inside the task; a logger travels by its name")

_BOUND: dict[str, Bound] = {
    "_thread.lock": _LOCK,
    "_thread.RLock": _LOCK,
    "threading._RLock": _LOCK,
    "threading.Condition": _LOCK,
    "threading.Semaphore": _LOCK,
    "threading.Event": _LOCK,
    "threading.Barrier": _LOCK,
    "multiprocessing.synchronize.SemLock": _LOCK,
    "multiprocessing.synchronize.Condition": _LOCK,
    "multiprocessing.synchronize.Event": _LOCK,
    "multiprocessing.sharedctypes.SynchronizedBase": Bound("a shared value with a lock"),
    "asyncio.mixins._LoopBoundMixin": Bound("a lock or queue of an event loop"),
    "_thread._local": Bound("a thread's own data"),
    "queue.Queue": _QUEUE,
    "_queue.SimpleQueue": _QUEUE,
    "multiprocessing.queues.Queue": _QUEUE,
    "multiprocessing.queues.SimpleQueue": _QUEUE,
    "threading.Thread": _THREADS,
    "subprocess.Popen": _PROCESS,
    "multiprocessing.process.BaseProcess": _PROCESS,
    "asyncio.subprocess.Process": _PROCESS,
    "psutil.Process": _PROCESS,
    "os._wrap_close": _PROCESS,
    "concurrent.futures._base.Executor": _POOL,
    "multiprocessing.pool.Pool": _POOL,
    "multiprocessing.managers.BaseManager": _POOL,
    "joblib.parallel.Parallel": _POOL,
    "distributed.client.Client": _POOL,
    "concurrent.futures._base.Future": _FUTURE,
    "_asyncio.Future": _FUTURE,
    "asyncio.futures.Future": _FUTURE,
    "asyncio.events.AbstractEventLoop": _LOOP,
    "asyncio.events.Handle": _LOOP,
    "asyncio.runners.Runner": _LOOP,
    "tornado.ioloop.IOLoop": _LOOP,
    "uvloop.loop.Loop": _LOOP,
    "IPython.core.interactiveshell.InteractiveShell": _KERNEL,
    "IPython.core.history.HistoryAccessorBase": _KERNEL,
    "ipykernel.kernelbase.Kernel": _KERNEL,
    "traitlets.config.application.Application": _KERNEL,
    "jupyter_client.session.Session": _KERNEL,
    "jupyter_client.manager.KernelManager": _KERNEL,
    "jupyter_client.client.KernelClient": _KERNEL,
    "comm.base_comm.BaseComm": Bound("a connection to a notebook's page"),
    "ipywidgets.widgets.widget.Widget": Bound(
        "a widget", "pass its value, or make it inside the task"
    ),
    "_io._IOBase": _FILE,
    "mmap.mmap": _FILE,
    "zipfile.ZipFile": _FILE,
    "tarfile.TarFile": _FILE,
    "tempfile._TemporaryFileWrapper": _FILE,
    "posix.ScandirIterator": _FILE,
    "_csv.reader": _FILE,
    "_csv.writer": _FILE,
    "pyarrow.lib.NativeFile": _FILE,
    "h5py._hl.base.HLObject": _FILE,
    "tables.file.File": _FILE,
    "netCDF4._netCDF4.Dataset": _FILE,
    "_socket.socket": _CONNECTION,
    "ssl.SSLContext": _CONNECTION,
    "_ssl._SSLContext": _CONNECTION,
    "asyncio.transports.BaseTransport": _CONNECTION,
    "asyncio.streams.StreamReader": _CONNECTION,
    "asyncio.streams.StreamWriter": _CONNECTION,
    "multiprocessing.connection._ConnectionBase": _CONNECTION,
    "http.client.HTTPConnection": _CONNECTION,
    "urllib3.connectionpool.ConnectionPool": _CONNECTION,
    "httpx._client.BaseClient": _CONNECTION,
    "aiohttp.client.ClientSession": _CONNECTION,
    "zmq.sugar.socket.Socket": _CONNECTION,
    "zmq.sugar.context.Context": _CONNECTION,
    "paramiko.client.SSHClient": _CONNECTION,
    "ftplib.FTP": _CONNECTION,
    "smtplib.SMTP": _CONNECTION,
    "sqlite3.Connection": _CONNECTION,
    "sqlite3.Cursor": _CONNECTION,
    "sqlalchemy.engine.base.Engine": _CONNECTION,
    "sqlalchemy.engine.base.Connection": _CONNECTION,
    "sqlalchemy.orm.session.Session": _CONNECTION,
    "select.epoll": _SELECTOR,
    "select.poll": _SELECTOR,
    "selectors.BaseSelector": _SELECTOR,
    "builtins.generator": _RUN,
    "builtins.async_generator": _RUN,
    "builtins.coroutine": _RUN,
    "builtins.frame": _PROGRAM,
    "builtins.traceback": _PROGRAM,
    "_contextvars.ContextVar": _CONTEXT,
    "_contextvars.Context": _CONTEXT,
    "_contextvars.Token": _CONTEXT,
    "weakref.ReferenceType": _WEAK,
    "weakref.ProxyType": _WEAK,
    "weakref.CallableProxyType": _WEAK,
    "weakref.WeakKeyDictionary": _WEAK,
    "weakref.WeakValueDictionary": _WEAK,
    "_ctypes._Pointer": _ADDRESS,
    "_ctypes.CFuncPtr": _ADDRESS,
    "ctypes.CDLL": Bound("a loaded library", "load it inside the task"),
    "logging.Handler": _HANDLER,
    "tempfile.TemporaryDirectory": Bound("a temporary directory", "pass its path (`.name`)"),
    "random.SystemRandom": Bound("the machine's source of chance"),
    "pyarrow.lib.MemoryPool": Bound("a pool of memory"),
    "torch.Stream": _DEVICE,
    "torch.cuda.streams.Stream": _DEVICE,
    "torch.cuda.streams.Event": _DEVICE,
    "cupy.cuda.stream.Stream": _DEVICE,
    "pycuda._driver.Context": _DEVICE,
    "tensorflow.python.client.session.BaseSession": _DEVICE,
    "onnxruntime.capi.onnxruntime_inference_collection.Session": _DEVICE,
    "cv2.VideoCapture": _DEVICE,
    "serial.serialutil.SerialBase": _DEVICE,
    "selenium.webdriver.remote.webdriver.WebDriver": _DEVICE,
    "playwright._impl._connection.ChannelOwner": _DEVICE,
}
"""By module and name of a class; it holds for those derived from it."""

_CONNECTIONS = ("Connection", "Cursor", "Session", "Client", "Engine")
"""Ends of the names of classes that keep a connection, as drivers of databases call them."""


def bound_to_process(kind: type) -> Bound | None:
    """What instances of a class are, if no other process can have them; None: not by its name."""
    for cls in kind.__mro__:
        found = _BOUND.get(f"{cls.__module__}.{cls.__qualname__}")
        if found is not None:
            return found
    return None


def looks_connected(kind: type) -> Bound | None:
    """The same by how drivers call such classes: to be asked of what can't be pickled anyway."""
    return _CONNECTION if kind.__name__.endswith(_CONNECTIONS) else None


def is_of_library(code: Any) -> bool:
    """Whether a class or function is from an installed package: its user can't well change it."""
    module = sys.modules.get(str(code.__module__))
    if module is None or module.__name__ == "__main__":
        return False
    file = getattr(module, "__file__", None)
    return file is None or file.startswith(_INSTALLED)


_INSTALLED = tuple({sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")})
