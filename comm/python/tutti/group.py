"""Group: the ranks of a job, or some of them; connect(), which forms it; and World, this process's place in the job."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import sys
import weakref
from types import TracebackType
from typing import Optional, Sequence

from ._library import (DTYPES, INVITATION_SIZE, NUMBERS, SIZES, GroupInfo, GroupOptions, Int, TuttiError, WorldInfo, WorldOptions,
                       call, encoded, lib, milliseconds, typed_view)
from .objects import Objects
from .store import Store

_groups: weakref.WeakSet[Group] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Ends what is still there while Python can still run operators, and says so if an exception ends the program."""
    for group in sorted(_groups, key=lambda one: one._handle.value if one._handle else 0):  # as they were made
        group._leave(getattr(sys, "last_value", None))


class Group(Objects):
    """The ranks of a job, or some of them. One thread at a time issues operations on it, and a second one is refused; different
    groups may be used by different threads at once. Calls let other Python threads run. One that blocks answers Ctrl-C when it
    returns, but Work.wait() at once.

    `rank` is this one's number, 0 .. `world_size` - 1. `name`, `transport` ("shm", "tcp", ...) and `timeout` (seconds, the deadline
    of each operation) are those of the group. The first failure ends the group: this and every later call, on every rank, raise
    TuttiError with the same first cause. Recovery is a new group. A TuttiError named TUTTI_INVALID_ARGUMENT, and whatever is
    raised for a buffer, is no failure: nothing was sent.

    As a context manager it ends by shutdown(), or on an exception by abort(), which tells the others what it was. A group that is
    left by neither is closed when it is dropped, or at exit, where the exception that ended the program is told.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        super().__init__(handle)
        _groups.add(self)
        info = GroupInfo(struct_size=ctypes.sizeof(GroupInfo))
        call("group_describe", handle, ctypes.byref(info))
        self.name, self.transport, self.timeout = info.name.decode(), info.transport.decode(), info.timeout_ms / 1000

    def __repr__(self) -> str:
        return f"<tutti.Group {self.name!r}: rank {self.rank} of {self.world_size} over {self.transport}>"

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            self.shutdown()
            self.close()
        else:
            self._leave(error)

    def __del__(self) -> None:
        self.close()

    def shutdown(self) -> None:
        """Collective: returns when all ranks have finished their operations. Later calls fail."""
        call("shutdown", self._handle)

    def close(self) -> None:
        """Leaves the group: with a goodbye of at most 5 s if shutdown() has not said it. Unfinished work fails."""
        handle, self._handle = getattr(self, "_handle", None), None
        if lib.tutti_free(handle) == 0:  # which completes the group's operations
            self._free_dropped()

    def abort(self, reason: str) -> None:
        """Fails the group on all ranks with `reason`; their operations end within a second."""
        call("abort", self._handle, encoded(str(reason).replace("\0", " ")))

    def error(self) -> str:
        """The first failure that a call on this group has raised; "" while there is none."""
        text = ctypes.c_char_p()
        call("group_error", self._handle, ctypes.byref(text))
        return (text.value or b"").decode(errors="replace")

    def recent_operations(self) -> str:
        """The latest operations of this rank, one a line."""
        length, room = ctypes.c_size_t(), 4096
        while True:
            text = ctypes.create_string_buffer(room)
            call("recent_operations", self._handle, text, room, ctypes.byref(length))
            if length.value < room:
                return text.value.decode(errors="replace")
            room = length.value + 4096

    def store(self, timeout: Optional[float] = None) -> Store:
        """The keys and values that all ranks of this group see. Its calls wait up to `timeout` seconds; None: the group's timeout."""
        return Store(self, self.timeout if timeout is None else timeout)

    def world_ranks(self) -> list[int]:
        """The rank in the world of each rank of this group."""
        ranks = (ctypes.c_int * self.world_size)()
        call("world_ranks", self._handle, ranks, self.world_size)
        return list(ranks)

    def split(self, color: int, key: int = 0) -> Optional[Group]:
        """Collective: the group of the ranks with the same color, in the order of their keys, and of their ranks here where keys are
        equal. None for a negative color."""
        handle = ctypes.c_void_p()
        call("split", self._handle, color, key, ctypes.byref(handle))
        return Group(handle) if handle else None

    def subgroup(self, ranks: Sequence[int]) -> Group:
        """The group of these ranks (of this group), in this order. Only they call it, with the same list."""
        handle = ctypes.c_void_p()
        call("subgroup", self._handle, (ctypes.c_int * len(ranks))(*ranks), len(ranks), ctypes.byref(handle))
        return Group(handle)

    def allocate(self, count: int, dtype: str = "float32") -> memoryview:
        """Zeroed memory of `count` elements for collectives that copy nothing, where all ranks of the group run on one host and all
        give such memory; anywhere else it is memory like any other. numpy.asarray() and torch.frombuffer() use it where it is; it
        lives as long as they do. float16 and bfloat16 are shown as their bits (format "H"): name the dtype in calls."""
        if dtype not in NUMBERS:
            raise ValueError(f"allocate: dtype {dtype!r} is none of {', '.join(DTYPES)}")
        nbytes, handle, data = count * SIZES[NUMBERS[dtype]], ctypes.c_void_p(), ctypes.c_void_p()
        call("allocate", self._handle, nbytes, ctypes.byref(handle))
        call("buffer_data", handle, ctypes.byref(data), None)
        memory = (ctypes.c_ubyte * nbytes).from_address(data.value or 0)
        weakref.finalize(memory, lib.tutti_buffer_free, handle).atexit = False
        return typed_view(memory, NUMBERS[dtype])

    def _leave(self, error: Optional[BaseException]) -> None:
        """Tells the other ranks which exception ends this one, if any, and closes."""
        if error is not None and self._handle:
            with contextlib.suppress(TuttiError):
                self.abort(f"{type(error).__name__}: {error}")
        self.close()


class World:
    """This process's place in its job, as it was told or as it was found. Opens no connection.

    What is given wins over the environment, and what contradicts it is an error. Else it is read from RANK, WORLD_SIZE, ... (of
    `tutti run` and torchrun), then from the variables of srun, mpirun and mpiexec; without any it is a world of one. `store`
    ("file:///PATH", or a text of invite()) is where the ranks meet instead of at master_addr. The job's secret is in
    TUTTI_JOB_SECRET, or a file of the user.

    Attributes: rank, world_size, local_rank, local_world_size, master_addr, master_port, job_id, and detected_from, a text.
    """

    def __init__(self, *, rank: Optional[int] = None, world_size: Optional[int] = None, master_addr: Optional[str] = None,
                 master_port: Optional[int] = None, store: Optional[str] = None, launcher: Optional[str] = None) -> None:
        self._handle, options = ctypes.c_void_p(), WorldOptions()
        call("world_options_init", ctypes.byref(options), ctypes.sizeof(options))
        for name, value in (("rank", rank), ("world_size", world_size), ("master_port", master_port)):
            if value is not None:
                setattr(options, name, Int.from_param(value).value)
        options.master_addr, options.store, options.launcher = encoded(master_addr), encoded(store), encoded(launcher)
        call("world_detect", ctypes.byref(options), ctypes.byref(self._handle))
        info = WorldInfo(struct_size=ctypes.sizeof(WorldInfo))
        call("world_describe", self._handle, ctypes.byref(info))
        self.rank, self.world_size = info.rank, info.world_size
        self.local_rank, self.local_world_size = info.local_rank, info.local_world_size
        self.master_addr, self.master_port = (info.master_addr or b"").decode(), info.master_port
        self.job_id, self.detected_from = (info.job_id or b"").decode(), (info.detected_from or b"").decode()

    def __del__(self) -> None:
        lib.tutti_world_free(self._handle)


def invite(world_size: int, one_host: bool = False) -> str:
    """Starts a store server in this process, for one group of `world_size` ranks, and returns a text that says where it is. For
    programs that can bring a text to their ranks by themselves: each, of which this is one, gives it to World as `store`, with its
    rank and the world size. `one_host`: all ranks run on this host. The text holds a secret by which any process that knows it may
    join, unless TUTTI_JOB_SECRET is set, which all ranks must have then.
    """
    text = ctypes.create_string_buffer(INVITATION_SIZE)
    call("invite", world_size, int(one_host), text, len(text))
    return text.value.decode()


def connect(world: Optional[World] = None, *, timeout: float = 300.0, name: Optional[str] = None, algorithm: Optional[str] = None,
            transport: Optional[str] = None, encrypt: bool = False, reproducible: bool = False, report_after: float = 5.0,
            bind_address: Optional[str] = None, interface: Optional[str] = None, segment_bytes: Optional[int] = None,
            trace_file: Optional[str] = None) -> Group:
    """Forms the group of all ranks, waiting for them up to `timeout` seconds. `world` None: the one that World() finds.

    timeout: the deadline of each operation, too. report_after: a longer wait logs one line. name: ranks of one group give the same;
    None: "world". algorithm: a name of comm/algorithms.md. transport: "auto", "tcp", "shm", "ucx". bind_address, interface ("eth0",
    "10.1.0.0/16"): which network. encrypt: TLS between ranks. reproducible: bits that depend on the ranks' inputs only.
    segment_bytes: the unit of overlap inside one message. trace_file: a timeline. None: the default, as comm/c/tutti.h says it.
    Raises TuttiError: TUTTI_TIMEOUT names the ranks that are missing, TUTTI_MISMATCH an option that differs between ranks.
    """
    options, handle = GroupOptions(), ctypes.c_void_p()
    call("group_options_init", ctypes.byref(options), ctypes.sizeof(options))
    options.timeout_ms, options.report_after_ms = milliseconds(timeout), milliseconds(report_after)
    options.name, options.algorithm, options.transport = encoded(name), encoded(algorithm), encoded(transport)
    options.bind_address, options.interface_name, options.trace_file = encoded(bind_address), encoded(interface), encoded(trace_file)
    options.encrypt, options.reproducible = int(encrypt), int(reproducible)
    if segment_bytes is not None:
        options.segment_bytes = segment_bytes
    call("connect", world._handle if world else None, ctypes.byref(options), ctypes.byref(handle))
    return Group(handle)
