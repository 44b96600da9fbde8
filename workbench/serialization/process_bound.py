"""Classes whose objects belong to one process (a thread, a socket, an open file), and advice.

By the names of classes, so that nothing is imported. Doesn't look inside objects.
"""

from __future__ import annotations

import sys
import sysconfig
from typing import Any, NamedTuple


class Bound(NamedTuple):
    """What an object is that no other process can have, and what to do instead."""

    what: str
    """The object in words: ``a thread``, ``an open file``."""

    instead: str = "make it inside the task"

    @property
    def advice(self) -> str:
        return f"{self.what[0].upper()}{self.what[1:]} belongs to one process: {self.instead}."


_CONNECTION = Bound("a connection", "connect inside the task")

_NAMES: dict[Bound, str] = {
    Bound(
        "a lock",
        "make it inside the task, or leave it out in its owner's `__getstate__` and make "
        "a new one in `__setstate__`",
    ): """
        _thread.lock _thread.RLock threading._RLock threading.Condition threading.Semaphore
        threading.Event threading.Barrier multiprocessing.synchronize.SemLock
        multiprocessing.synchronize.Condition multiprocessing.synchronize.Event
    """,
    Bound("a shared value with a lock"): "multiprocessing.sharedctypes.SynchronizedBase",
    Bound("a lock or queue of an event loop"): "asyncio.mixins._LoopBoundMixin",
    Bound("a thread's own data"): "_thread._local",
    Bound("a queue", "make it inside the task, and return what it had"): """
        queue.Queue _queue.SimpleQueue multiprocessing.queues.Queue
        multiprocessing.queues.SimpleQueue
    """,
    Bound("a thread"): "threading.Thread",
    Bound("a running process", "start it inside the task"): """
        subprocess.Popen multiprocessing.process.BaseProcess asyncio.subprocess.Process
        psutil.Process os._wrap_close
    """,
    Bound("a pool of workers"): """
        concurrent.futures._base.Executor multiprocessing.pool.Pool
        multiprocessing.managers.BaseManager joblib.parallel.Parallel
        distributed.client.Client
    """,
    Bound("a future", "wait for its result, and pass that"): """
        concurrent.futures._base.Future _asyncio.Future asyncio.futures.Future
    """,
    Bound("an event loop"): """
        asyncio.events.AbstractEventLoop asyncio.events.Handle asyncio.runners.Runner
        tornado.ioloop.IOLoop uvloop.loop.Loop
    """,
    Bound("a kernel", "pass what you need of it"): """
        IPython.core.interactiveshell.InteractiveShell
        IPython.core.history.HistoryAccessorBase ipykernel.kernelbase.Kernel
        traitlets.config.application.Application jupyter_client.session.Session
        jupyter_client.manager.KernelManager jupyter_client.client.KernelClient
    """,
    Bound("a connection to a notebook's page"): "comm.base_comm.BaseComm",
    Bound("a widget", "pass its value, or make it inside the task"): """
        ipywidgets.widgets.widget.Widget
    """,
    Bound("an open file", "pass its path, and open it inside the task"): """
        _io._IOBase mmap.mmap zipfile.ZipFile tarfile.TarFile tempfile._TemporaryFileWrapper
        posix.ScandirIterator _csv.reader _csv.writer pyarrow.lib.NativeFile
        h5py._hl.base.HLObject tables.file.File netCDF4._netCDF4.Dataset
    """,
    _CONNECTION: """
        _socket.socket ssl.SSLContext _ssl._SSLContext asyncio.transports.BaseTransport
        asyncio.streams.StreamReader asyncio.streams.StreamWriter
        multiprocessing.connection._ConnectionBase http.client.HTTPConnection
        urllib3.connectionpool.ConnectionPool httpx._client.BaseClient
        aiohttp.client.ClientSession zmq.sugar.socket.Socket zmq.sugar.context.Context
        paramiko.client.SSHClient ftplib.FTP smtplib.SMTP sqlite3.Connection sqlite3.Cursor
        sqlalchemy.engine.base.Engine sqlalchemy.engine.base.Connection
        sqlalchemy.orm.session.Session
    """,
    Bound("a list of open descriptors"): "select.epoll select.poll selectors.BaseSelector",
    Bound(
        "a run that is half-way through",
        "make a list of it, or call the function that makes it inside the task",
    ): "builtins.generator builtins.async_generator",
    Bound(
        "a run that is half-way through",
        "await it and pass the result, or call the function that makes it inside the task",
    ): "builtins.coroutine",
    Bound(
        "a frame of a running program", "keep its text instead (`traceback.format_exception`)"
    ): """
        builtins.frame builtins.traceback
    """,
    Bound("a context variable", "pass its value, and set it inside the task"): """
        _contextvars.ContextVar _contextvars.Context _contextvars.Token
    """,
    Bound("a weak reference", "pass what it refers to, or leave it out in `__getstate__`"): """
        weakref.ReferenceType weakref.ProxyType weakref.CallableProxyType
        weakref.WeakKeyDictionary weakref.WeakValueDictionary weakref.finalize
    """,
    Bound("an address in memory", "pass what is there, as bytes or an array"): """
        _ctypes._Pointer _ctypes.CFuncPtr
    """,
    Bound("a loaded library", "load it inside the task"): "ctypes.CDLL",
    Bound("a log handler", "set logging up inside the task; a logger travels by its name"): """
        logging.Handler
    """,
    Bound("a temporary directory", "pass its path (`.name`)"): "tempfile.TemporaryDirectory",
    Bound("the machine's source of chance"): "random.SystemRandom",
    Bound("a pool of memory"): "pyarrow.lib.MemoryPool",
    Bound("a handle of a driver"): """
        torch.Stream torch.cuda.streams.Stream torch.cuda.streams.Event
        cupy.cuda.stream.Stream pycuda._driver.Context
        tensorflow.python.client.session.BaseSession
        onnxruntime.capi.onnxruntime_inference_collection.Session cv2.VideoCapture
        serial.serialutil.SerialBase selenium.webdriver.remote.webdriver.WebDriver
        playwright._impl._connection.ChannelOwner
    """,
}
"""Modules and names of classes; includes their subclasses."""

_BOUND = {name: bound for bound, names in _NAMES.items() for name in names.split()}

_CONNECTIONS = ("Connection", "Cursor", "Session", "Client", "Engine")
"""Suffixes of the names of database drivers' classes that hold a connection."""


def bound_to_process(kind: type) -> Bound | None:
    """Describe a class whose instances belong to one process; None: its name isn't known."""
    for cls in kind.__mro__:
        found = _BOUND.get(f"{cls.__module__}.{cls.__qualname__}")
        if found is not None:
            return found
    return None


def looks_connected(kind: type) -> Bound | None:
    """Guess the same from the end of the class's name: only for what can't be pickled anyway."""
    return _CONNECTION if kind.__name__.endswith(_CONNECTIONS) else None


def is_of_library(code: Any) -> bool:
    """True if a class or function is from an installed package: its user can hardly change it."""
    module = sys.modules.get(str(code.__module__))
    if module is None or module.__name__ == "__main__":
        return False
    file = getattr(module, "__file__", None)
    return file is None or file.startswith(_INSTALLED)


_INSTALLED = tuple({sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")})
