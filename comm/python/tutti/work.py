"""Operations: how they are issued on a group, Work for those that were started, and operators of the caller's own."""

from __future__ import annotations

import collections
import ctypes
from typing import Any, Callable, Optional, Union

from ._library import SIZES, TuttiError, call, encoded, lib, typed_view

_COMBINE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
Plan = tuple[tuple[Any, ...], tuple[Any, ...]]  # what a function is called with after the group; what must live until it is over


class Operator:
    """A reduction by a function of the caller's: `combine(target, incoming)`, two memoryviews of as many elements, changes target.

    float16 and bfloat16 are shown as their bits (format "H"). `name` is equal on all ranks. Without `commutative`, target always
    holds the contributions of ranks below incoming's. What `combine` raises is kept as `error`, and fails the operation, and with
    it the group, on all ranks. `combine` runs on whichever thread runs the operation, and calls nothing of the group.
    """

    def __init__(self, name: str, combine: Callable[[memoryview, memoryview], Any], commutative: bool = True) -> None:
        self.error: Optional[BaseException] = None
        self.number = 0

        def run(target: int, incoming: int, count: int, dtype: int, _: int) -> int:
            try:
                bytes_of = ctypes.c_char * (count * SIZES[dtype])
                combine(typed_view(bytes_of.from_address(target), dtype), typed_view(bytes_of.from_address(incoming), dtype))
                return 0
            except BaseException as error:  # pylint: disable=broad-except  # nothing may leave it: the caller is C
                self.error = error
                return 1

        self._function, number = _COMBINE(run), ctypes.c_int()
        call("op_create", encoded(name), self._function, None, int(commutative), ctypes.byref(number))
        self.number = number.value

    def close(self) -> None:
        """No later operation can use it."""
        number, self.number = self.number, 0
        if number:
            lib.tutti_op_free(number)


Reduction = Union[int, Operator]  # SUM, AVG, PROD, MIN, MAX, BAND, BOR, BXOR, or an Operator


def number_of(op: Reduction) -> int:
    """What the library knows an operator by."""
    return op.number if isinstance(op, Operator) else op


def _cause(keeps: tuple[Any, ...]) -> Optional[BaseException]:
    """What an operator among `keeps` raised."""
    return next((keep.error for keep in keeps if isinstance(keep, Operator)), None)


class Work:
    """An operation that was started. wait() before using what its buffers receive, and before changing what they send.

    The buffers and the operator are kept until the operation is over: by this object, or by the group once this object is
    dropped. Any thread may wait.
    """

    def __init__(self, group: Issuer, handle: ctypes.c_void_p, keeps: tuple[Any, ...]) -> None:
        self._handle, self._keeps, self._dropped = handle, keeps, group._dropped
        group._release_dropped()

    def wait(self) -> None:
        """Blocks until the operation is over; raises what it ended with. Looks up now and then, so that Ctrl-C works."""
        while not self.wait_for(0.2):
            pass

    def wait_for(self, seconds: float) -> bool:
        """Whether it is over, or is within this time; raises what it ended with."""
        return self._ask("work_wait_for", int(seconds * 1000))

    def is_completed(self) -> bool:
        """Whether it is over, without waiting; raises what it ended with."""
        return self._ask("work_test")

    def exception(self) -> Optional[TuttiError]:
        """What it ended with; None while it goes on and after success. Does not wait."""
        try:
            self.is_completed()
        except TuttiError as error:
            return error
        return None

    def source(self) -> int:
        """After a completed irecv(): the rank that sent. Else -1."""
        source = ctypes.c_int()
        call("work_source", self._handle, ctypes.byref(source))
        return source.value

    def _ask(self, function: str, *arguments: int) -> bool:
        completed = ctypes.c_int()
        try:
            call(function, self._handle, *arguments, ctypes.byref(completed))
        except TuttiError as error:
            raise error from _cause(self._keeps)
        if completed.value:
            self._keeps = ()
        return bool(completed.value)

    def __del__(self) -> None:
        if _is_over(self._handle):
            lib.tutti_work_free(self._handle)
        else:
            self._dropped.append((self._handle, self._keeps))


def _is_over(work: ctypes.c_void_p) -> bool:
    """Whether this work handle's operation is over, with success or without."""
    completed = ctypes.c_int()
    lib.tutti_work_test(work, ctypes.byref(completed))
    return bool(completed.value)


class Issuer:
    """The part of a Group that issues operations."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle: Optional[ctypes.c_void_p] = handle
        self._dropped: collections.deque[tuple[ctypes.c_void_p, tuple[Any, ...]]] = collections.deque()
        self.rank, self.world_size = self._integer("rank"), self._integer("world_size")

    def _integer(self, what: str) -> int:
        value = ctypes.c_int()
        call(what, self._handle, ctypes.byref(value))
        return value.value

    def _run(self, function: str, plan: Plan) -> None:
        arguments, keeps = plan
        try:
            call(function, self._handle, *arguments)
        except TuttiError as error:
            raise error from _cause(keeps)

    def _start(self, function: str, plan: Plan) -> Work:
        (arguments, keeps), handle = plan, ctypes.c_void_p()
        call(function, self._handle, *arguments, ctypes.byref(handle))
        return Work(self, handle, keeps)

    def _release_dropped(self) -> None:
        """Looks at two dropped operations for each that starts, so that their number stays bounded at a fixed price."""
        for _ in range(min(2, len(self._dropped))):
            work, keeps = self._dropped.popleft()
            if _is_over(work):
                lib.tutti_work_free(work)
            else:
                self._dropped.append((work, keeps))

    def _free_dropped(self) -> None:
        while self._dropped:
            lib.tutti_work_free(self._dropped.popleft()[0])
