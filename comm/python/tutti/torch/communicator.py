"""Communicator: a group of libtutti_c for PyTorch's threads, formed through the store that PyTorch gives."""

from __future__ import annotations

import atexit
import collections
import contextlib
import ctypes
import itertools
import os
import sys
import threading
import weakref
from datetime import timedelta
from typing import Optional

import torch
import torch.distributed as dist

from .. import _library
from .._library import lib
from .work import Done, Work, exception_of

_KEY = "tutti/invitation"
_LOOPBACK = ("localhost", "127.", "::1", "[::1]")

_profiler_enabled = torch.autograd._profiler_enabled
_open = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Leaves the groups that the program has not destroyed, while Python can still run callbacks; tells the other ranks
    which exception ends the program, if one does."""
    error = getattr(sys, "last_value", None)
    for communicator in list(_open):
        communicator.close(f"{type(error).__name__}: {error}" if error is not None else None)


def _one_host(size: int) -> bool:
    """Whether the launcher says that all ranks of the job run here."""
    world, local = os.environ.get("WORLD_SIZE", ""), os.environ.get("LOCAL_WORLD_SIZE", "")
    return size == 1 or (local != "" and local == world) or os.environ.get("MASTER_ADDR", "").startswith(_LOOPBACK)


def _form(store: dist.Store, rank: int, size: int, timeout_ms: int) -> ctypes.c_void_p:
    """Rank 0 publishes an invitation in `store`; everybody follows it. Afterwards it is taken away, as PyTorch may give the
    next group the same keys."""
    text = ctypes.create_string_buffer(_library.INVITATION_SIZE)
    if rank == 0:
        _library.call("invite", size, int(_one_host(size)), text, len(text))
        store.set(_KEY, text.value.decode())
        invitation = text.value
    else:
        store.wait([_KEY], timedelta(milliseconds=timeout_ms))
        invitation = store.get(_KEY)
    place, options = _library.WorldOptions(), _library.GroupOptions()
    world, group = ctypes.c_void_p(), ctypes.c_void_p()
    _library.call("world_options_init", ctypes.byref(place), ctypes.sizeof(place))
    _library.call("group_options_init", ctypes.byref(options), ctypes.sizeof(options))
    place.rank, place.world_size, place.store, options.timeout_ms = rank, size, invitation, timeout_ms
    _library.call("world_detect", ctypes.byref(place), ctypes.byref(world))
    try:
        _library.call("connect", world, ctypes.byref(options), ctypes.byref(group))
    finally:
        lib.tutti_world_free(world)
    if rank == 0:
        store.delete_key(_KEY)
    return group


class Communicator:
    """Thread-safety: any thread may call anything; operations are issued one at a time. Owns the group's handle."""

    def __init__(self, name: str, store: dist.Store, rank: int, size: int, timeout: timedelta):
        self.name, self.rank, self.size, self.store = name, rank, size, store
        self.timeout_ms = max(1, int(timeout.total_seconds() * 1000))
        self.finishing = threading.Lock()
        self.sequence = 0  # collectives so far
        self._issuing = threading.Lock()
        self._thread = threading.get_ident()
        self._dropped = collections.deque()
        self._monitored = itertools.count()
        try:
            self.handle = _form(store, rank, size, self.timeout_ms)
        except _library.TuttiError as error:
            raise exception_of(error) from None
        _open.add(self)

    def __str__(self) -> str:
        return f"rank {self.rank}/{self.size}"

    def collective(self, opts, name: str, arguments, outputs, keeps=None, after=None, inputs=None) -> dist.Work:
        """Runs tutti_<name>, at once if the caller waits for it anyway, and no other thread uses the group: it might have
        to send what the other ranks wait for. `inputs`, if they are not the outputs, are for the profiler."""
        self.sequence += 1
        if _profiler_enabled():
            after = self._recorded(name.removesuffix("_v"), inputs or outputs, after)
        own_ms = self._own_timeout(opts)
        if own_ms == 0 and opts is not None and not getattr(opts, "asyncOp", True) and self._is_one_thread():
            with self._issuing:
                code = getattr(lib, "tutti_" + name)(self.handle, *arguments)
            if code != 0:
                raise exception_of(_library.error_of(code))
            if after:
                after()
            return Done(outputs)
        return self._start(name + "_async", arguments, outputs, keeps, after, own_ms)

    def message(self, name: str, event: str, arguments, tensors, data) -> Work:
        """Starts tutti_<name>, an isend or irecv of `data`, which the profiler knows as `event`."""
        after = self._recorded(event, tensors, data.after) if _profiler_enabled() else data.after
        return self._start(name, arguments, list(tensors), data, after)

    def _start(self, name: str, arguments, tensors, keeps, after, timeout_ms: int = 0) -> Work:
        handle = ctypes.c_void_p()
        with self._issuing:
            code = getattr(lib, "tutti_" + name)(self.handle, *arguments, ctypes.byref(handle))
        if code != 0:
            raise exception_of(_library.error_of(code))
        self._release_dropped()
        return Work(self, handle, tensors, keeps, after, timeout_ms, name)

    def _recorded(self, what: str, tensors, after):
        """Opens an event of the profiler; what is returned closes it, on another thread: that makes it an event of what
        goes on beside the program, as those of PyTorch's own backends are."""
        event = torch.autograd._record_function_with_args_enter(f"{self.name}:{what}", *tensors)

        def close():
            if after:
                after()
            closing = threading.Thread(target=torch.autograd._record_function_with_args_exit, args=(event,))
            closing.start()
            closing.join()

        return close

    def _is_one_thread(self) -> bool:
        if self._thread != threading.get_ident():
            self._thread = 0
        return self._thread != 0

    def _own_timeout(self, opts) -> int:
        """In ms, if the caller gave this operation another one than the group's; else 0. PyTorch's "not set" is negative."""
        timeout = getattr(opts, "timeout", None)
        ms = int(timeout.total_seconds() * 1000) if timeout else 0
        return ms if 0 < ms != self.timeout_ms else 0

    def allocate(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeroed memory that ranks of one host read and write without copies in between, for as long as the tensor lives."""
        nbytes, handle, data = count * dtype.itemsize, ctypes.c_void_p(), ctypes.c_void_p()
        _library.call("allocate", self.handle, nbytes, ctypes.byref(handle))
        _library.call("buffer_data", handle, ctypes.byref(data), None)
        memory = (ctypes.c_ubyte * nbytes).from_address(data.value)
        weakref.finalize(memory, lib.tutti_buffer_free, handle).atexit = False
        return torch.frombuffer(memory, dtype=dtype)

    def keep(self, handle, buffers) -> None:
        """The buffers of an operation that nobody waits for, until it is complete."""
        self._dropped.append((handle, buffers))

    def _release_dropped(self) -> None:
        """Looks at two of them for each operation that starts, so that their number stays bounded at a fixed price."""
        for _ in range(min(2, len(self._dropped))):
            handle, buffers = self._dropped.popleft()
            completed = ctypes.c_int()
            lib.tutti_work_test(handle, ctypes.byref(completed))
            if completed.value:
                lib.tutti_work_free(handle)
            else:
                self._dropped.append((handle, buffers))

    def monitored_barrier(self, timeout: Optional[timedelta], wait_all_ranks: bool) -> None:
        """By the store, so that a rank that does not come fails nobody's group. Raises on rank 0 with the numbers of the
        first, or of all missing ranks; on the others when rank 0 says so. The texts are those of PyTorch's gloo."""
        prefix = f"tutti/monitored/{next(self._monitored)}/"
        limit = timeout if timeout is not None and timeout >= timedelta(0) else timedelta(milliseconds=self.timeout_ms)
        if self.rank == 0:
            if limit == timedelta(0):
                raise RuntimeError(f"[Rank 0]: Rank 0 timed out in monitoredBarrier after {limit}")
            missing = self._missing(prefix, limit, wait_all_ranks)
            text = f"Rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} failed to pass monitoredBarrier in {limit}"
            self.store.set(prefix + "over", text if missing else "")
            if missing:
                raise RuntimeError(f"[Rank 0]: {text}")
            return
        self.store.set(prefix + str(self.rank), "here")
        if self._comes(prefix + "over", 2 * limit):  # rank 0 may have begun to wait later
            failure = self.store.get(prefix + "over").decode()
        else:
            failure = f"it said nothing within {2 * limit}"
        if failure:
            raise RuntimeError(f"Rank {self.rank} successfully reached monitoredBarrier, but received errors while waiting for "
                               f"send/recv from rank 0: {failure}. Please check rank 0 logs for the faulty rank.")

    def _missing(self, prefix: str, limit: timedelta, all_of_them: bool) -> list:
        missing = []
        for rank in range(1, self.size):
            if not self._comes(prefix + str(rank), timedelta(milliseconds=1) if missing else limit):
                missing.append(rank)
                if not all_of_them:
                    break
        return missing

    def _comes(self, key: str, limit: timedelta) -> bool:
        """Whether somebody sets the key in time. Stores differ in what they raise."""
        try:
            self.store.wait([key], limit)
            return True
        except RuntimeError as error:
            if "timeout" not in str(error).lower():
                raise
            return False

    def abort(self, reason: str) -> None:
        lib.tutti_abort(self.handle, reason.encode())

    def close(self, reason: Optional[str] = None) -> None:
        """Leaves the group, with a goodbye, or with an abort that tells the others the reason."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        if not handle:
            return
        if reason is not None:
            with contextlib.suppress(_library.TuttiError):
                _library.call("abort", handle, reason.encode())
        lib.tutti_free(handle)  # which completes its operations
        while self._dropped:
            lib.tutti_work_free(self._dropped.popleft()[0])
        _open.discard(self)

    def __del__(self):
        if getattr(self, "handle", None):
            self.close()
