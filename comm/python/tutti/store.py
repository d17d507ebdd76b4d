"""The store that a group has met in: keys and values that all its ranks see."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Sequence

from ._library import TuttiError, call, encoded, milliseconds

if TYPE_CHECKING:
    from .group import Group


class Store:
    """Group.store() gives one. A sub-group has keys of its own. Each call waits up to `timeout` for the server and, where it says
    so, for a key: TuttiError named TUTTI_TIMEOUT, which names the key. A failed or shut-down group's store still works."""

    def __init__(self, group: Group, timeout: float) -> None:
        self._group, self._ms = group, milliseconds(timeout)

    def set(self, key: str, value: bytes) -> None:
        """`value` is any bytes: whatever has a buffer."""
        data = memoryview(value).tobytes()
        call("store_set", self._group._handle, encoded(key), data, len(data), self._ms)

    def get(self, key: str) -> bytes:
        """Waits until the key exists."""
        length, room = ctypes.c_size_t(), 256
        while True:
            value = ctypes.create_string_buffer(room)
            try:
                call("store_get", self._group._handle, encoded(key), value, room, ctypes.byref(length), self._ms)
                return value.raw[:length.value]
            except TuttiError as error:
                if error.name != "TUTTI_INVALID_ARGUMENT" or length.value <= room:
                    raise
            room = length.value

    def wait(self, keys: Sequence[str]) -> None:
        """Waits until all of them exist."""
        names = (ctypes.c_char_p * len(keys))(*[encoded(key) for key in keys])
        call("store_wait", self._group._handle, names, len(keys), self._ms)

    def add(self, key: str, delta: int) -> int:
        """Adds to the decimal number under the key (0 if there is none), and returns the sum."""
        total = ctypes.c_int64()
        call("store_add", self._group._handle, encoded(key), delta, ctypes.byref(total), self._ms)
        return total.value

    def check(self, key: str) -> bool:
        """Whether the key exists now."""
        return self._flag("store_check", key)

    def delete(self, key: str) -> bool:
        """Whether there was such a key."""
        return self._flag("store_delete", key)

    def _flag(self, function: str, key: str) -> bool:
        flag = ctypes.c_int()
        call(function, self._group._handle, encoded(key), ctypes.byref(flag), self._ms)
        return bool(flag.value)
