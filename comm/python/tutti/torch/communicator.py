"""Communicator: a group of libtutti_c for PyTorch's threads, formed through the store that PyTorch gives."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from datetime import timedelta
from typing import Optional

import torch
import torch.distributed as dist

from .. import _library
from ..group import Group, World, connect, invite
from .work import Done, Work, exception_of

_KEY = "tutti/invitation"
_LOOPBACK = ("localhost", "127.", "::1", "[::1]")

_profiler_enabled = torch.autograd._profiler_enabled


def _one_host(size: int) -> bool:
    """Whether the launcher says that all ranks of the job run here."""
    world, local = os.environ.get("WORLD_SIZE", ""), os.environ.get("LOCAL_WORLD_SIZE", "")
    return size == 1 or (local != "" and local == world) or os.environ.get("MASTER_ADDR", "").startswith(_LOOPBACK)


def _form(store: dist.Store, rank: int, size: int, timeout: timedelta) -> Group:
    """Rank 0 publishes an invitation in `store`, which all ranks follow. Afterwards it is taken away, as PyTorch may give the
    next group the same keys."""
    if rank == 0:
        invitation = invite(size, _one_host(size))
        store.set(_KEY, invitation)
    else:
        store.wait([_KEY], timeout)
        invitation = store.get(_KEY).decode()
    group = connect(World(rank=rank, world_size=size, store=invitation), timeout=timeout.total_seconds())
    if rank == 0:
        store.delete_key(_KEY)
    return group


class Communicator:
    """Thread-safety: any thread may call anything; operations are issued one at a time. Owns the group."""

    def __init__(self, name: str, store: dist.Store, rank: int, size: int, timeout: timedelta):
        self.name, self.rank, self.size, self.store = name, rank, size, store
        self.timeout_ms = max(1, int(timeout.total_seconds() * 1000))
        self.finishing = threading.Lock()
        self.sequence = 0  # collectives so far
        self._issuing = threading.Lock()
        self._thread = threading.get_ident()
        self._monitored = itertools.count()
        try:
            self.group = _form(store, rank, size, timeout)
        except _library.TuttiError as error:
            raise exception_of(error) from None

    def __str__(self) -> str:
        return f"rank {self.rank}/{self.size}"

    def collective(self, opts, name: str, arguments, outputs, keeps=None, after=None, inputs=None) -> dist.Work:
        """Runs tutti_<name>, at once if the caller waits for it anyway, and no other thread uses the group: it might have
        to send what the other ranks wait for. `inputs`, if they are not the outputs, are for the profiler."""
        self.sequence += 1
        at_end = self._at_end(name.removesuffix("_v"), inputs or outputs, after)
        own_ms = self._own_timeout(opts)
        if own_ms == 0 and opts is not None and not getattr(opts, "asyncOp", True) and self._is_one_thread():
            with self._issuing:
                code = _library.result_of(name, self.group._handle, *arguments)
            error = exception_of(_library.error_of(code)) if code != 0 else None
            if at_end:
                at_end(error is None)
            if error:
                raise error
            return Done(outputs)
        return self._start(name + "_async", arguments, outputs, keeps, at_end, own_ms)

    def message(self, name: str, event: str, arguments, tensors, data) -> Work:
        """Starts tutti_<name>, an isend or irecv of `data`, which the profiler knows as `event`."""
        return self._start(name, arguments, list(tensors), data, self._at_end(event, tensors, data.after))

    def _start(self, name: str, arguments, tensors, keeps, at_end, timeout_ms: int = 0) -> Work:
        handle = ctypes.c_void_p()
        with self._issuing:
            code = _library.result_of(name, self.group._handle, *arguments, ctypes.byref(handle))
        if code != 0:
            error = exception_of(_library.error_of(code))
            if at_end:
                at_end(False)
            raise error
        return Work(self, handle, tensors, keeps, at_end, timeout_ms, name)

    def _at_end(self, what: str, tensors, after):
        """What is to be called once when the operation is over, with whether it succeeded: `after` if it did, and the end of
        the profiler's event, which begins here. That end is on another thread: it makes it an event of what goes on beside the
        program, as those of PyTorch's own backends are."""
        event = torch.autograd._record_function_with_args_enter(f"{self.name}:{what}", *tensors) if _profiler_enabled() else None
        if after is None and event is None:
            return None

        def at_end(succeeded: bool) -> None:
            if after and succeeded:
                after()
            if event is not None:
                closing = threading.Thread(target=torch.autograd._record_function_with_args_exit, args=(event,))
                closing.start()
                closing.join()

        return at_end

    def _is_one_thread(self) -> bool:
        if self._thread != threading.get_ident():
            self._thread = 0
        return self._thread != 0 and threading.active_count() == 1

    def _own_timeout(self, opts) -> int:
        """In ms, if the caller gave this operation another one than the group's; else 0. PyTorch's "not set" is negative."""
        timeout = getattr(opts, "timeout", None)
        ms = int(timeout.total_seconds() * 1000) if timeout else 0
        return ms if 0 < ms != self.timeout_ms else 0

    def allocate(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Zeroed memory that ranks of one host read and write without copies in between, for as long as the tensor lives."""
        return torch.frombuffer(self.group.allocate(count * dtype.itemsize, "uint8"), dtype=dtype)

    def monitored_barrier(self, timeout: Optional[timedelta], wait_all_ranks: bool) -> None:
        """By the store, so that a rank that does not come does not fail the group. Raises on rank 0 with the numbers of the
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
        """Whether the key is set in time. Stores differ in what they raise."""
        try:
            self.store.wait([key], limit)
            return True
        except RuntimeError as error:
            if "timeout" not in str(error).lower():
                raise
            return False
