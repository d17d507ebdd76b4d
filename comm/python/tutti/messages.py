"""Messages between two ranks of a Group. Those between two ranks with equal tags arrive in the order they were sent."""

from __future__ import annotations

import ctypes
from typing import Optional

from ._library import ANY_SOURCE, DTYPES, call
from .buffers import Array, Buffer
from .work import Issuer, Work


class Messages(Issuer):
    """A message has `count` elements of one dtype, and the receiver's buffer has exactly these: else TuttiError, TUTTI_MISMATCH."""

    def send(self, data: Buffer, destination: int, tag: int = 0, dtype: Optional[str] = None) -> None:
        """Returns when `data` may be used again: at once for up to 64 KiB, as long as there is room; else when the receiver asks."""
        a = Array(data, False, dtype, "send", "data")
        call("send", self._handle, a.address, a.count, a.dtype, destination, tag)

    def isend(self, data: Buffer, destination: int, tag: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts send()."""
        a = Array(data, False, dtype, "isend", "data")
        return self._start("isend", ((a.address, a.count, a.dtype, destination, tag), (a,)))

    def recv(self, data: Buffer, source: int = ANY_SOURCE, tag: int = 0, dtype: Optional[str] = None) -> int:
        """Waits for a message with `tag` from `source`, or from whichever rank sends first. Returns the sender's rank."""
        a, sender = Array(data, True, dtype, "recv", "data"), ctypes.c_int()
        call("recv", self._handle, a.address, a.count, a.dtype, source, tag, ctypes.byref(sender))
        return sender.value

    def irecv(self, data: Buffer, source: int = ANY_SOURCE, tag: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts recv(). Work.source() tells who sent."""
        a = Array(data, True, dtype, "irecv", "data")
        return self._start("irecv", ((a.address, a.count, a.dtype, source, tag), (a,)))

    def sendrecv(self, outgoing: Buffer, destination: int, incoming: Buffer, source: int = ANY_SOURCE, send_tag: int = 0,
                 recv_tag: int = 0, dtype: Optional[str] = None) -> int:
        """Both at once: no order among the ranks makes them wait for each other. The buffers are of one dtype, need not have one
        count, and do not overlap. Returns the rank that `incoming` came from."""
        a, o = Array(outgoing, False, dtype, "sendrecv", "outgoing"), Array(incoming, True, dtype, "sendrecv", "incoming")
        if a.dtype != o.dtype:
            o.refuse(TypeError, f"has elements of {DTYPES[o.dtype]}, but outgoing has {DTYPES[a.dtype]}")
        sender = ctypes.c_int()
        call("sendrecv", self._handle, a.address, a.count, destination, send_tag, o.address, o.count, source, recv_tag, a.dtype,
             ctypes.byref(sender))
        return sender.value
