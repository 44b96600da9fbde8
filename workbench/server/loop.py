"""The server's event loop: sockets ↔ core. It moves messages and descriptors; it decides nothing.

One thread, level-triggered epoll. Each round reads once from whoever has something, hands the
lot to the core as one batch, and sends what came of it.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field

from workbench.core import events as ev
from workbench.core import instructions as do
from workbench.core.loop_events import Copied, Left, Measured, Tick
from workbench.core.session import Session
from workbench.errors import ProtocolError
from workbench.fallocate import punch
from workbench.machine import MemoryGauge
from workbench.memory import spill
from workbench.memory.segment import Descriptors, create
from workbench.server.forkserver_client import ForkserverClient
from workbench.server.mover import Mover
from workbench.spin_poll import SpinThenPoll
from workbench.wire.buffers import Inbox, Outbox, Parcel
from workbench.wire.codec import decode_from_client

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(slots=True, eq=False)
class Peer:
    """One connection."""

    number: int
    sock: socket.socket
    inbox: Inbox = field(default_factory=lambda: Inbox(decode_from_client))
    outbox: Outbox = field(default_factory=Outbox)
    stuck: bool = False  # its socket is full: epoll tells when it isn't


class Server:
    """Runs one session until the core says it is over. Who made the ``listener`` closes it."""

    def __init__(
        self,
        listener: socket.socket,
        session: Session,
        forkserver: ForkserverClient,
        spill_dir: str = "",
    ) -> None:
        self._listener = listener
        self._session = session
        self._forkserver = forkserver
        self._epoll = select.epoll()
        self._polled: socket.socket | None = None  # the forkserver's
        self._peers: dict[int, Peer] = {}  # by number
        self._by_fd: dict[int, Peer] = {}
        self._numbers = 0
        self._segments: dict[int, Descriptors] = {}
        self._shared: set[int] = set()  # those that others than their writer have mapped
        self._dirty: set[Peer] = set()
        self._batch: list[tuple[int, ev.Event]] = []
        self._gauge = MemoryGauge()
        self._spill_dir = spill_dir
        self._mover = Mover()
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
                deadline = self._session.deadline()
                timeout = None if deadline is None else max(deadline - time.monotonic(), 0)
                for fd, mask in poll(timeout):
                    self._ready(fd, mask)
                if not self._batch:
                    self._batch.append((0, Tick()))
                self._turn()
        finally:
            self._close()

    def _turn(self) -> None:
        while self._batch:
            batch, self._batch = self._batch, []
            peers = self._peers
            instructions = self._session.handle(batch, time.monotonic())
            if instructions and type(instructions[-1]) is do.Exit:
                # Arrays in a process that has left show what lies there, until that ends.
                instructions = [i for i in instructions if not _gives_back(i)]
            for instruction in instructions:
                if type(instruction) is do.Send:
                    peer = peers.get(instruction.to)
                    if peer is not None:
                        self._queue(peer, instruction.message)
                else:
                    self._do(instruction)
            for _, event in batch:
                if type(event) is ev.Opened:
                    self._close_refused(event.segment)
            dirty, self._dirty = self._dirty, set()
            for peer in dirty:
                self._send(peer)

    def _queue(self, peer: Peer, message: do.Message) -> None:
        if type(message) is do.Shared:
            fd = self._segments[message.segment].readonly
            peer.outbox.put(Parcel(message, (fd,)))
            self._shared.add(message.segment)
        else:
            peer.outbox.put(message)
        self._dirty.add(peer)

    def _do(self, instruction: do.Anything) -> None:
        match instruction:
            case do.Fork() | do.Kill():
                self._forkserver.send(instruction)
                self._poll_forkserver()
            case do.Hangup(client, _):
                peer = self._peers.get(client)
                if peer is not None:
                    self._drop(peer)
            case do.Punch(segment, extents):
                descriptors = self._segments.get(segment)
                if descriptors is not None:  # else its making failed
                    for offset, length in extents:
                        punch(descriptors.writable, offset, length)
            case do.Discard(segment):
                descriptors = self._segments.pop(segment, None)
                if descriptors is not None:
                    if segment in self._shared:  # who has it mapped would keep its memory
                        self._shared.discard(segment)
                        punch(descriptors.writable, 0, descriptors.size)
                    descriptors.close()
            case do.Copy():
                self._copy(instruction)
            case do.Measure():
                pids = self._forkserver.pids.items()
                sizes = tuple((worker, self._gauge.private(pid)) for worker, pid in pids if pid)
                self._batch.append((0, Measured(*self._gauge.read(), sizes)))
            case do.Exit():
                self._over = True

    def _copy(self, copy: do.Copy) -> None:
        source, target = copy.source[0], copy.target[0]
        try:
            if target not in self._segments:
                self._segments[target] = (
                    spill.create(self._spill_dir, copy.size) if copy.disk else create(copy.size)
                )
            self._mover.copy(copy, self._segments[source].readonly, self._segments[target].writable)
        except OSError as error:  # no such directory, no leave to write, no descriptors left
            why = f"{error.strerror or error} ({self._spill_dir})"
            self._batch.append((0, Copied(copy.object, error=why)))

    def _ready(self, fd: int, mask: int) -> None:
        if fd == self._listener.fileno():
            self._accept()
        elif fd == self._mover.fileno():
            self._batch.extend((0, event) for event in self._mover.read())
        elif fd == self._forkserver.sock.fileno():
            self._batch.extend((0, event) for event in self._forkserver.read())
        else:
            peer = self._by_fd.get(fd)
            if peer is not None and mask & ~select.EPOLLOUT:
                self._read(peer)
            elif peer is not None:
                self._send(peer)

    def _poll_forkserver(self) -> None:
        """It may have died, and be a new one."""
        sock = self._forkserver.sock
        if sock is not self._polled:
            self._polled = sock
            self._epoll.register(sock, select.EPOLLIN)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it left again, or we are out of descriptors: the others go on
            return
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(raw)[1] != os.getuid():
            sock.close()
            return
        sock.setblocking(False)
        self._numbers += 1
        peer = Peer(self._numbers, sock)
        self._peers[peer.number] = self._by_fd[sock.fileno()] = peer
        self._epoll.register(sock, select.EPOLLIN)

    def _read(self, peer: Peer) -> None:
        """Read once; so a flood from one client doesn't keep the others waiting."""
        number = peer.number
        try:
            more = peer.inbox.receive(peer.sock.recvmsg)
            messages = peer.inbox.messages()
        except BlockingIOError:
            return
        except (OSError, ProtocolError):
            self._drop(peer)
            return
        for message in messages:
            if type(message) is Parcel:
                message = self._unpack(message)
            self._batch.append((number, message))
        messages.clear()
        if not more:
            self._drop(peer)

    def _unpack(self, parcel: Parcel) -> ev.Opened:
        """Keep a new segment's descriptors; close them if the id is taken."""
        message: ev.Opened = parcel.message
        writable, readonly = parcel.fds
        descriptors = Descriptors(writable, readonly, message.size)
        if message.segment in self._segments:
            descriptors.close()
        else:
            self._segments[message.segment] = descriptors
        return message

    def _close_refused(self, segment: int) -> None:
        """The core may have refused the segment, or its maker left in the same batch."""
        if segment not in self._session.state.budget.arenas and segment in self._segments:
            self._segments.pop(segment).close()

    def _send(self, peer: Peer) -> None:
        if self._peers.get(peer.number) is not peer:
            return
        try:
            done = peer.outbox.send(peer.sock.sendmsg)
        except BrokenPipeError:  # it reads nothing more; whether it has gone, the next read tells
            peer.outbox = Outbox()
            done = True
        except OSError:
            self._drop(peer)
            return
        if peer.stuck == done:
            peer.stuck = not done
            self._epoll.modify(peer.sock, select.EPOLLIN | (0 if done else select.EPOLLOUT))

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer.number, None) is None:
            return
        del self._by_fd[peer.sock.fileno()]
        self._epoll.unregister(peer.sock)
        peer.sock.close()
        peer.inbox.close()
        self._batch.append((peer.number, Left()))

    def _close(self) -> None:
        for peer in list(self._peers.values()):
            peer.sock.close()
        for descriptors in self._segments.values():
            descriptors.close()
        self._mover.close()
        self._epoll.close()


def _gives_back(instruction: do.Anything) -> bool:
    """Whether it has memory emptied, or used for something else."""
    if isinstance(instruction, do.Send):
        return isinstance(instruction.message, do.Release)
    return isinstance(instruction, do.Punch | do.Discard)
