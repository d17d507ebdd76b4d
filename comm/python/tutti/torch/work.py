"""Work: an operation of a group as c10d's callers see it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from datetime import timedelta
from typing import Callable, List, Optional

import torch
import torch.distributed as dist

from .. import _library
from .._library import lib

_BackendError = getattr(dist, "DistBackendError", RuntimeError)
_INVALID_ARGUMENT = "TUTTI_INVALID_ARGUMENT"
_LOOK_MS = 200  # how long a wait lasts before Python may handle a signal


def exception_of(error: _library.TuttiError) -> Exception:
    """What PyTorch's users expect: ValueError for an argument that is wrong, DistBackendError for the rest. Programs look
    for "Timed out" with a capital letter, as PyTorch's own backends write it."""
    if error.name == _INVALID_ARGUMENT:
        return ValueError(str(error))
    return _BackendError(str(error).replace(": timed out after", ": Timed out after"))


class _Future(torch.futures.Future):
    """Callbacks in Python run on a thread of their own: they may wait for other operations, which the completing thread runs."""

    def __init__(self):
        super().__init__()
        self._lock, self._has_callbacks = threading.RLock(), False

    def then(self, callback):
        with self._lock:
            self._has_callbacks = True
        return super().then(callback)

    def add_done_callback(self, callback):
        with self._lock:
            self._has_callbacks = True
        super().add_done_callback(callback)

    def complete_by(self, tell) -> None:
        with self._lock:
            if not self._has_callbacks:
                return tell(self)
        threading.Thread(target=tell, args=(self,), daemon=True).start()


class Done(dist.Work):
    """What was complete before the call returned."""

    def __init__(self, tensors: List[torch.Tensor]):
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self):
        return None

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        pass

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self._tensors)
        return future


class Callbacks:
    """What to call when works complete: the library gets a number, so that nothing of Python's hangs on its memory."""

    def __init__(self):
        self._numbers = itertools.count(1)
        self._waiting = {}
        self._function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda number: self._waiting.pop(number)())  # lives as long as the process

    def add(self, handle, callback: Callable[[], None]) -> None:
        number = next(self._numbers)
        self._waiting[number] = callback
        if lib.tutti_work_on_completion(handle, self._function, number) != 0:
            self._waiting.pop(number, None)
            callback()


_callbacks = Callbacks()


class Work(dist.Work):
    """One operation that was started. The buffers are kept until it is complete, also if this object is dropped before."""

    def __init__(self, communicator, handle: ctypes.c_void_p, tensors, keeps, at_end, timeout_ms: int, name: str):
        super().__init__()
        self._name = name
        self._communicator, self._handle, self._tensors = communicator, handle, tensors
        self._keeps, self._at_end, self._timeout_ms = keeps, at_end, timeout_ms
        self._error: Optional[Exception] = None
        self._over = False
        self._future = None

    def _finish(self, code: int) -> None:
        """Takes note of the result, and brings what came to where it belongs. Once."""
        with self._communicator.finishing:
            if self._over:
                return
            if code != 0:
                self._error = exception_of(_library.error_of(code))
            if self._at_end:
                self._at_end(code == 0)
            self._over = True
            self._keeps = self._at_end = None

    def _look(self, wait_ms: int) -> bool:
        """Whether it is over, after waiting for it for so long at most."""
        if not self._over:
            completed = ctypes.c_int()
            code = lib.tutti_work_wait_for(self._handle, wait_ms, ctypes.byref(completed))
            if completed.value or code != 0:
                self._finish(code)
        return self._over

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Blocks until complete; raises what it ended with. An operation that was given a timeout of its own and does not
        end in it fails the group; a `timeout` given here does not."""
        own_ms = int(timeout.total_seconds() * 1000) if timeout else 0
        limits = [ms for ms in (own_ms, self._timeout_ms) if ms > 0]
        left = min(limits) if limits else None
        while not self._look(_LOOK_MS if left is None else min(_LOOK_MS, left)):
            if left is not None:
                left -= min(_LOOK_MS, left)
                if left == 0:
                    self._time_out(min(limits), given_here=own_ms == min(limits))
        if self._error:
            raise self._error
        return True

    def _time_out(self, ms: int, given_here: bool) -> None:
        text = f"{self._communicator}: {self._name}: Timed out waiting {ms}ms for the other ranks"
        if not given_here:
            self._communicator.group.abort(text)
        raise _BackendError(text)

    def is_completed(self) -> bool:
        return self._look(0)

    def is_success(self) -> bool:
        return self._look(0) and self._error is None

    def exception(self):
        self._look(0)
        return self._error

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        """After a completed receive: the rank that sent."""
        source = ctypes.c_int()
        _library.call("work_source", self._handle, ctypes.byref(source))
        return source.value

    _source_rank = source_rank

    def get_future(self):
        """A future of the tensors; it is completed on the thread that completes the operation, or on one of its own."""
        if self._future is None:
            future = self._future = _Future()
            _callbacks.add(self._handle, lambda: future.complete_by(self._tell))
        return self._future

    def _tell(self, future) -> None:
        self._look(0)
        if self._error:
            future.set_exception(self._error)
        else:
            future.set_result(self._tensors)

    def __del__(self):
        if self._over:
            lib.tutti_work_free(self._handle)
        else:
            _callbacks.add(self._handle, functools.partial(_end_dropped, self._handle, self._keeps, self._at_end))


def _end_dropped(handle, keeps, at_end) -> None:
    """When an operation is complete that nothing waits for: `keeps` has lived until now."""
    completed = ctypes.c_int()
    code = lib.tutti_work_test(handle, ctypes.byref(completed))
    lib.tutti_work_free(handle)
    if at_end:
        at_end(code == 0)


class Works(dist.Work):
    """Several operations as one."""

    def __init__(self, works: List[dist.Work]):
        super().__init__()
        self._works = works

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self):
        return next((error for error in (work.exception() for work in self._works) if error), None)

    def result(self) -> List[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]

    def synchronize(self) -> None:
        self.wait()

    def get_future(self):
        all_of_them = torch.futures.collect_all([work.get_future() for work in self._works])
        return all_of_them.then(lambda futures: [tensor for one in futures.value() for tensor in one.value()])
