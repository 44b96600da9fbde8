"""The server's event loop: sockets ↔ core. It moves messages and descriptors; it decides nothing.

One thread, level-triggered epoll. Each round reads once from each socket that is ready, hands all
events to the core as one batch, and carries out its instructions.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Copied, Left, Measured, Tick, WorkerExited
from workbench.core.session import Session
from workbench.errors import ProtocolError
from workbench.server import process_memory
from workbench.server.forkserver_client import ForkserverClient
from workbench.server.lines import LineEnds
from workbench.server.mover import Mover
from workbench.server.peers import HeldMemory, Peer
from workbench.server.segments import Segments
from workbench.server.watches import Watches
from workbench.system.machine import MemoryGauge
from workbench.system.spare_descriptors import NONE_LEFT, SpareDescriptors
from workbench.system.spin_poll import SpinThenPoll
from workbench.wire.buffers import CARRIERS, Outbox, Parcel

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


RETRY = 0.1
"""Seconds until a retry of what failed for lack of a descriptor or of memory."""

PATIENCE = 1.0
"""Seconds that a new connection waits for a descriptor before it is refused."""

SPARES = 4
"""Descriptors kept in reserve: a segment takes two, and so does a copy."""

NO_ROOM = (
    "The session's server can open no more connections: it may have {} open files, and has. End "
    "some of the processes that are in the session; or start it where the limit is higher "
    "(`ulimit -n`)."
)

FAULT = (
    "The session's server has hung up on this process, because of what that has sent: {}. This is "
    "a fault in Workbench; please report it."
)

_PASSING = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""Errors of sending that aren't the client's fault."""


@dataclass(eq=False)
class Server:
    """Runs one session until the core says it is over. The caller closes the ``_listener``."""

    _listener: socket.socket
    _session: Session
    _forkserver: ForkserverClient
    _spill_dir: str = ""

    def __post_init__(self) -> None:
        self._epoll = select.epoll()
        self._polled: socket.socket | None = None  # the forkserver's
        self._peers: dict[int, Peer] = {}  # by number
        self._by_fd: dict[int, Peer] = {}
        self._numbers = 0
        self._segments = Segments(self._spill_dir)
        self._lines = LineEnds(self._segments.nothing)
        self._dirty: set[Peer] = set()
        self._waiting: set[Peer] = set()  # have more messages than their turn allows
        self._unsent: set[Peer] = set()  # sending to them failed, not by their fault
        self._held = HeldMemory()
        self._batch: list[tuple[int, ev.Event]] = []
        self._opening: list[int] = []  # segments opened in this batch
        self._gauge = MemoryGauge()
        self._watches = Watches(self._epoll)
        self._mover = Mover()
        self._spares = SpareDescriptors(SPARES)
        self._word = SpareDescriptors(1)  # to accept and refuse a new connection
        self._listening = True
        self._short_since: float | None = None  # new connections wait for a descriptor
        self._retry_at: float | None = None
        self._over = False

    def run(self) -> None:
        self._listener.setblocking(False)
        self._epoll.register(self._listener, select.EPOLLIN)
        self._epoll.register(self._mover, select.EPOLLIN)
        self._poll_forkserver()
        self._batch.append((0, Tick()))
        self._turn()
        poll = SpinThenPoll(self._epoll.poll)
        try:
            while not self._over:
                for fd, mask in poll(self._timeout()):
                    self._ready(fd, mask)
                if self._waiting:
                    for peer in [peer for peer in self._waiting if not peer.stuck]:
                        self._take(peer)
                if self._retry_at is not None and time.monotonic() >= self._retry_at:
                    self._retry()
                if not self._batch:
                    self._batch.append((0, Tick()))
                self._turn()
        finally:
            self._close()

    def _timeout(self) -> float | None:
        """Return the seconds until something has to be done even without events; None: never."""
        if self._waiting and not all(peer.stuck for peer in self._waiting):
            return 0.0
        deadline, retry_at = self._session.deadline(), self._retry_at
        if deadline is None or (retry_at is not None and retry_at < deadline):
            deadline = retry_at
        return None if deadline is None else max(deadline - time.monotonic(), 0)

    def _turn(self) -> None:
        while self._batch:
            batch, self._batch = self._batch, []
            peers = self._peers
            instructions = self._session.handle(batch, time.monotonic())
            if instructions and type(instructions[-1]) is do.Exit:
                # Arrays in a process that sent Bye may still show these bytes.
                instructions = [i for i in instructions if not _gives_back(i)]
            for instruction in instructions:
                if type(instruction) is do.Send:
                    peer = peers.get(instruction.to)
                    if peer is not None:
                        self._queue(peer, instruction.message)
                else:
                    self._do(instruction)
            opened, self._opening = self._opening, []
            for segment in opened:  # the core may have refused it
                self._segments.refuse(self._session.state.budget.arenas, segment)
            dirty, self._dirty = self._dirty, set()
            for peer in dirty:
                self._send(peer)

    def _queue(self, peer: Peer, message: do.Message) -> None:
        parcel: do.Message | Parcel | None = message
        if type(message) in CARRIERS:
            if type(message) is do.Shared:
                parcel = self._segments.share(message)
            elif type(message) is do.Offer:
                parcel = self._lines.offer(message)
        if parcel is not None:
            peer.put(parcel)
            self._dirty.add(peer)

    def _do(self, instruction: do.Anything) -> None:
        peers = self._peers
        match instruction:
            case do.Fork() | do.Kill():
                self._batch.extend((0, event) for event in self._forkserver.send(instruction))
                self._poll_forkserver()
            case do.Hangup(client, reason, is_fault):
                peer = self._peers.get(client)
                if peer is not None and is_fault:
                    self._tell_fault(peer, reason)
                if peer is not None:
                    self._drop(peer)
            case do.Punch(segment, extents):
                self._segments.punch(segment, extents)
            case do.Discard(segment):
                self._substitute(self._segments.discard(segment))
            case do.Connect(line, worker):
                peer = self._peers.get(worker)
                if peer is not None:
                    peer.put(self._lines.connect(line))
                    self._dirty.add(peer)
            case do.Disconnect(line):
                self._substitute(self._lines.disconnect(line))
            case do.Copy():
                self._copy(instruction)
            case do.WatchDriver(client):
                if client in peers:
                    self._watches.begin(client, _credentials(peers[client].sock)[0])
            case do.Measure(clients):
                self._watches.look()
                socks = [(number, peers[number].sock) for number in clients if number in peers]
                pids = [(number, _credentials(sock)[0]) for number, sock in socks]
                found = process_memory.measured(self._gauge, pids)
                self._batch.append((0, Measured(*self._gauge.read(), found)))
            case do.LimitData(limits):
                process_memory.set_limits(limits)
            case do.EndProcess(pid):
                with suppress(OSError):  # it has ended
                    os.kill(pid, signal.SIGKILL)
            case do.Exit():
                self._over = True

    def _substitute(self, closing: Iterable[tuple[int, int]]) -> None:
        """Replace descriptors that are about to be closed where they are queued to be sent."""
        for fd, other in closing:
            for peer in self._peers.values():
                if peer.outbox:
                    peer.outbox.substitute(fd, other)

    def _copy(self, copy: do.Copy) -> None:
        try:
            self._mover.copy(copy, *self._segments.for_copy(copy))
        except OSError as error:  # no directory, no permission, no descriptor
            why = f"{error.strerror or error} ({self._spill_dir})"
            passing = error.errno in (*NONE_LEFT, errno.EBADF)
            self._batch.append((0, Copied(copy.object, error=why, passing=passing)))

    def _ready(self, fd: int, mask: int) -> None:
        if fd == self._listener.fileno():
            if self._listening:  # not switched off in this round
                self._accept()
        elif fd == self._mover.fileno():
            self._batch.extend((0, event) for event in self._mover.read())
        elif fd == self._forkserver.sock.fileno():
            for event in self._forkserver.read():
                if type(event) is WorkerExited:
                    worker = self._session.state.scheduler.workers.get(event.worker)
                    self._read_to_end(0 if worker is None else worker.client or 0)
                self._batch.append((0, event))
        else:
            peer = self._by_fd.get(fd)
            if peer is not None and mask & ~select.EPOLLOUT:
                self._read(peer, bool(mask & (select.EPOLLHUP | select.EPOLLERR)))
            elif peer is not None:
                self._send(peer)
            elif (client := self._watches.client(fd)) is not None:
                self._read_to_end(client)
                self._batch.append((0, self._watches.ended(fd)))

    def _poll_forkserver(self) -> None:
        """Poll the forkserver's socket, if that is a new one."""
        sock = self._forkserver.sock
        if sock is not self._polled and sock.fileno() >= 0:
            self._polled = sock
            self._epoll.register(sock, select.EPOLLIN)

    # -- connections ------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            if not self._spares.refill():
                raise OSError(NONE_LEFT[0], "")
            sock, _ = self._listener.accept()
        except OSError as error:  # it left again, or no descriptor is left: others go on
            if error.errno in NONE_LEFT:
                self._run_short()
            return
        self._short_since = None
        if _credentials(sock)[1] != os.getuid():
            sock.close()
            return
        sock.setblocking(False)
        self._numbers += 1
        peer = Peer(self._numbers, sock)
        self._peers[peer.number] = self._by_fd[sock.fileno()] = peer
        self._epoll.register(sock, select.EPOLLIN)

    def _run_short(self) -> None:
        """Let a new connection wait, without polling it, because there is no descriptor; after
        `PATIENCE` refuse it with a reason."""
        now = time.monotonic()
        if self._short_since is None:
            self._short_since = now
        elif now >= self._short_since + PATIENCE:
            with suppress(OSError), self._word.lent():
                self._turn_away(self._listener.accept()[0])
                return
        self._listen(False)
        self._retry_at = now + RETRY

    def _listen(self, on: bool) -> None:
        if on != self._listening:
            self._listening = on
            self._epoll.modify(self._listener, select.EPOLLIN if on else 0)

    def _turn_away(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            self._forkserver.turned_away(_credentials(sock)[0])
            outbox = Outbox()
            outbox.put(do.Ended(NO_ROOM.format(resource.getrlimit(resource.RLIMIT_NOFILE)[0])))
            outbox.send(sock.sendmsg)

    def _retry(self) -> None:
        """Retry what failed for lack of a descriptor or of memory."""
        self._retry_at = None
        unsent, self._unsent = self._unsent, set()
        for peer in unsent:
            self._send(peer)
        if self._segments.awaited:
            self._ask_again()
        else:
            self._spares.refill()
            self._listen(True)

    def _ask_again(self) -> None:
        """Free some descriptors, and ask again for segments' that got lost for lack of any."""
        self._listen(False)
        self._spares.lend()
        for segment, client in list(self._segments.awaited.items()):
            peer = self._peers.get(client)
            if peer is not None:
                peer.put(do.Reopen(segment))
                self._send(peer)
        self._retry_at = time.monotonic() + RETRY

    def _read_to_end(self, number: int) -> None:
        """Read all that a client had sent whose process is dead, so that it comes before that."""
        peer = self._peers.get(number)
        while peer is not None and self._peers.get(peer.number) is peer:
            if not self._read(peer, True):
                return

    def _read(self, peer: Peer, gone: bool) -> bool:
        """Read once, so that a flood from one client delays no others. True if anything came."""
        if gone:  # take what was read before and not handled
            self._take(peer, gone)
        elif peer in self._waiting:
            return False  # it still has messages for its next turn
        try:
            more = peer.inbox.receive(peer.sock.recvmsg)
            peer.inbox.messages()
        except BlockingIOError:
            return False
        except (OSError, ProtocolError):
            self._drop(peer)
            return True
        self._take(peer, gone or not more)
        if not more:
            self._drop(peer)
        elif peer.is_held or peer.inbox.unfinished:
            self._hold(peer)
        return True

    def _take(self, peer: Peer, gone: bool = False) -> None:
        """Add a client's messages to the batch, as far as its turn allows."""
        number = peer.number
        taken = peer.take(gone)
        if Parcel in map(type, taken):
            for message in taken:
                if type(message) is Parcel:
                    self._opened(number, message)
                else:
                    self._batch.append((number, message))
        else:
            self._batch.extend(zip(repeat(number), taken, strict=False))
        if peer.is_waiting:
            self._waiting.add(peer)
        else:
            self._waiting.discard(peer)

    def _opened(self, number: int, parcel: Parcel) -> None:
        awaited = len(self._segments.awaited)
        event = self._segments.opened(number, parcel)
        if event is not None:
            self._batch.append((number, event))
            self._opening.append(event.segment)
        if len(self._segments.awaited) > awaited:
            self._ask_again()

    def _send(self, peer: Peer) -> None:
        if self._peers.get(peer.number) is not peer:
            return
        try:
            done = peer.outbox.send(peer.sock.sendmsg)
            if done and peer.stuck:
                peer.goes_on()
                done = peer.outbox.send(peer.sock.sendmsg)
        except BrokenPipeError:  # it reads no more; the next read tells if it is gone
            peer.outbox = Outbox()
            done = True
        except OSError as error:
            if error.errno in _PASSING:
                self._unsent.add(peer)
                self._retry_at = time.monotonic() + RETRY
            else:
                self._drop(peer)
            return
        if peer.stuck == done:
            peer.stuck = not done
            self._epoll.modify(peer.sock, select.EPOLLIN if done else select.EPOLLOUT)
        if not done or peer.is_held:
            self._hold(peer)

    def _hold(self, peer: Peer) -> None:
        """Update the memory kept for a client; if the total is too much, hang up on some."""
        self._held.update_held(peer)
        while (longest := self._held.excess()) is not None:
            self._drop(longest)

    def _tell_fault(self, peer: Peer, reason: str) -> None:
        """Tell a client why it is hung up on, if its socket isn't full, and the server's log."""
        print(f"Client {peer.number} is hung up on: {reason}.", file=sys.stderr, flush=True)
        peer.put(do.Ended(FAULT.format(reason)))
        self._send(peer)

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer.number, None) is None:
            return
        del self._by_fd[peer.sock.fileno()]
        self._epoll.unregister(peer.sock)
        peer.sock.close()
        peer.inbox.close()
        self._waiting.discard(peer)
        self._unsent.discard(peer)
        self._held.forget(peer)
        self._segments.on_client_left(peer.number)
        self._batch.append((peer.number, Left()))

    def _close(self) -> None:
        for peer in list(self._peers.values()):
            peer.sock.close()
        self._lines.close()
        self._segments.close()
        self._spares.close()
        self._word.close()
        self._mover.close()
        self._watches.close()
        self._epoll.close()


def _credentials(sock: socket.socket) -> tuple[int, int, int]:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid


def _gives_back(instruction: do.Anything) -> bool:
    """True if the instruction has memory freed, or used for something else."""
    if isinstance(instruction, do.Send):
        return isinstance(instruction.message, do.Release)
    return isinstance(instruction, do.Punch | do.Discard)
