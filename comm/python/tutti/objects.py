"""Any Python objects from rank to rank, by pickle: for settings, names and results, not for big arrays, which are copied twice.

Unpickling runs code that the sender chose. The ranks of a group trust each other: each connection has proved the job's secret
before anything else was read from it, which connect() always asks for. A process that does not know the secret cannot send here.

The lengths go first, and are compared with LARGEST before memory is taken. An object that cannot be pickled is an error on all
ranks of a collective, and the group goes on: ranks that wait are told, and raise RuntimeError.
"""

from __future__ import annotations

import array
import pickle
from typing import Any, Optional, Sequence

from ._library import ANY_SOURCE
from .collectives import Collectives
from .messages import Messages

LARGEST = 1 << 32  # bytes of one pickled object
_FAILED = -1       # in place of a length


class Objects(Collectives, Messages):
    """Calls for objects. The first four are collective: all ranks call the same, with the same root."""

    def broadcast_object(self, obj: Any = None, root: int = 0) -> Any:
        """Root's `obj`, on every rank; that of the others is not looked at. Root gets its own object back, the others a copy."""
        lengths, content, failure = array.array("q", [0]), b"", None
        if self.rank == root:
            (content,), failure = _pickled([obj])
            lengths[0] = _length(content, failure)
        self.broadcast(lengths, root)
        _check("broadcast_object", [(root, lengths[0])], failure)
        data = content if self.rank == root else bytearray(lengths[0])
        self.broadcast(data, root)
        return obj if self.rank == root else pickle.loads(data)

    def all_gather_object(self, obj: Any) -> list[Any]:
        """All ranks' objects, in rank order, on every rank."""
        content, lengths = self._announce("all_gather_object", obj)
        whole = bytearray(sum(lengths))
        self.all_gather_v(content, whole, lengths)
        return _unpickled(whole, lengths)

    def gather_object(self, obj: Any, root: int = 0) -> Optional[list[Any]]:
        """All ranks' objects, in rank order, on root; None on the others."""
        content, lengths = self._announce("gather_object", obj)
        whole = bytearray(sum(lengths)) if self.rank == root else None
        self.gather_v(content, whole, lengths, root)
        return None if whole is None else _unpickled(whole, lengths)

    def scatter_object(self, objects: Optional[Sequence[Any]] = None, root: int = 0) -> Any:
        """The rank-th of root's `objects`, one for each rank; that of the others is not looked at."""
        lengths = array.array("q", [_FAILED] * self.world_size)
        contents: list[bytes] = []
        failure: Optional[Exception] = None
        if self.rank == root:
            if objects is None or len(objects) != self.world_size:
                given = "None" if objects is None else len(objects)
                failure = ValueError(f"scatter_object: objects has {given} of them, but needs one for each of the {self.world_size} ranks")
            else:
                contents, failure = _pickled(objects)
            if failure is None:
                lengths = array.array("q", map(len, contents))
        self.broadcast(lengths, root)
        _check("scatter_object", [(root, length) for length in lengths], failure)
        own = bytearray(lengths[self.rank])
        self.scatter_v(b"".join(contents), own, lengths, root)
        return pickle.loads(own)

    def send_object(self, obj: Any, destination: int, tag: int = 0) -> None:
        """Sends two messages with this tag, which recv_object() takes as one. Blocks as send() does."""
        content = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
        if len(content) > LARGEST:
            raise ValueError(_too_long("send_object", self.rank, len(content)))
        self.send(array.array("q", [len(content)]), destination, tag)
        self.send(content, destination, tag)

    def recv_object(self, source: int = ANY_SOURCE, tag: int = 0) -> Any:
        """Waits for an object with `tag` from `source`, or from whichever rank sends first."""
        source = self.recv(length := array.array("q", [0]), source, tag)
        _check("recv_object", [(source, length[0])], None)
        self.recv(content := bytearray(length[0]), source, tag)
        return pickle.loads(content)

    def _announce(self, operation: str, obj: Any) -> tuple[bytes, list[int]]:
        """This rank's object as bytes, and the lengths of all ranks' objects."""
        (content,), failure = _pickled([obj])
        lengths = array.array("q", [0] * self.world_size)
        self.all_gather(array.array("q", [_length(content, failure)]), lengths)
        _check(operation, list(enumerate(lengths)), failure)
        return content, list(lengths)


def _pickled(objects: Sequence[Any]) -> tuple[list[bytes], Optional[Exception]]:
    """Their bytes, or what pickle raised."""
    try:
        return [pickle.dumps(obj, pickle.HIGHEST_PROTOCOL) for obj in objects], None
    except Exception as error:  # pylint: disable=broad-except  # an object's own code raises what it likes
        return [b""] * len(objects), error


def _unpickled(whole: bytearray, lengths: Sequence[int]) -> list[Any]:
    objects, begin = [], 0
    for length in lengths:
        objects.append(pickle.loads(memoryview(whole)[begin:begin + length]))
        begin += length
    return objects


def _length(content: bytes, failure: Optional[Exception]) -> int:
    return len(content) if failure is None else _FAILED


def _too_long(operation: str, rank: int, length: int) -> str:
    return (f"{operation}: rank {rank}'s object has {length} bytes, but at most {LARGEST} are sent (tutti.objects.LARGEST): send big "
            "arrays as buffers")


def _check(operation: str, lengths: Sequence[tuple[int, int]], failure: Optional[Exception]) -> None:
    """Raises on all ranks alike if (rank, length) is one that was not made, or too long; `failure` is this rank's own."""
    if failure is not None:
        raise failure
    for rank, length in lengths:
        if length < 0:
            raise RuntimeError(f"{operation}: rank {rank} has no object to send that can be pickled; what it raised itself says why")
        if length > LARGEST:
            raise ValueError(_too_long(operation, rank, length))
