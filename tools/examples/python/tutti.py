"""Tutti's collectives in Python: libtutti_c by ctypes, without anything to install.

    import tutti
    with tutti.connect() as group:        # under `tutti run -n 3 -- python3 ...`, srun or mpirun
        group.all_reduce(values)          # in place; any writable buffer: numpy, array.array, a ctypes array, ...

A buffer is whatever Python's buffer protocol shows in one piece, with a type of its own: numpy arrays (contiguous ones),
array.array, memoryview. It is used where it is, and not copied. Calls let other Python threads run. What fails raises
TuttiError with the library's text. One thread at a time uses a group; comm/c/tutti.h says the rest.

The library is $TUTTI_C_LIBRARY, else one installed beside this file, else of a build folder of this source tree, else what
the system's loader finds.
"""

import atexit
import collections
import contextlib
import ctypes
import os
import pathlib
import sys
import weakref

ABI_VERSION = 1
ANY_SOURCE = -1
SUM, AVG, PROD, MIN, MAX, BAND, BOR, BXOR = range(8)
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16", "int8", "uint16", "uint64", "bool")
_SIZES = (4, 8, 4, 8, 1, 2, 2, 1, 2, 8, 1)
_KINDS = {"e": "float", "f": "float", "d": "float", "?": "bool", **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint")}
_PYBUF_WRITABLE, _PYBUF_C_CONTIGUOUS, _PYBUF_FORMAT = 0x1, 0x38, 0x4


class TuttiError(RuntimeError):
    """What a call ended with: `code` is a number of tutti_results, `name` its name; the text is the library's."""

    def __init__(self, code, name, text):
        super().__init__(text)
        self.code, self.name = code, name


class _PyBuffer(ctypes.Structure):  # Py_buffer of Python's C API
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class Array:
    """A buffer as the library sees it: address, count and dtype. Holds the object until it is dropped."""

    def __init__(self, data, writable=True, dtype=None):
        self._view = _PyBuffer()
        flags = _PYBUF_C_CONTIGUOUS | _PYBUF_FORMAT | (_PYBUF_WRITABLE if writable else 0)
        get = ctypes.pythonapi.PyObject_GetBuffer
        get.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
        get(data, self._view, flags)  # raises BufferError or TypeError
        self._held = True
        self.address = self._view.buf
        self.dtype = DTYPES.index(dtype) if dtype else self._own_dtype()
        self.count = self._view.len // _SIZES[self.dtype]

    def _own_dtype(self):
        letter = (self._view.format or b"B").decode().lstrip("@=<")
        name = _KINDS.get(letter, "") + ("" if letter == "?" else str(8 * self._view.itemsize))
        if name not in DTYPES:
            raise TypeError(f"elements of format '{letter}' ({self._view.itemsize} bytes) are none of {', '.join(DTYPES)}")
        return DTYPES.index(name)

    def __del__(self):
        if getattr(self, "_held", False):
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._view))


class _GroupOptions(ctypes.Structure):  # tutti_group_options
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64),
                ("report_after_ms", ctypes.c_int64), ("algorithm", ctypes.c_char_p), ("transport", ctypes.c_char_p),
                ("bind_address", ctypes.c_char_p), ("interface_name", ctypes.c_char_p), ("segment_bytes", ctypes.c_size_t),
                ("reproducible", ctypes.c_int), ("encrypt", ctypes.c_int), ("trace_file", ctypes.c_char_p)]


def _library_path():
    if os.environ.get("TUTTI_C_LIBRARY"):
        return os.environ["TUTTI_C_LIBRARY"]
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here, *here.parents):
        for name in ("libtutti_c.so.1", "lib/libtutti_c.so.1", "build/release/lib/libtutti_c.so.1"):
            if (folder / name).exists():
                return str(folder / name)
    return f"libtutti_c.so.{ABI_VERSION}"


def _load():
    path = _library_path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{error}; build it (cmake --build --preset release) or name it by TUTTI_C_LIBRARY") from None
    if library.tutti_abi_version() < ABI_VERSION:
        raise ImportError(f"{path} has version {library.tutti_abi_version()} of the C API, but {ABI_VERSION} is needed")
    for function in ("tutti_last_error", "tutti_result_name", "tutti_version"):
        getattr(library, function).restype = ctypes.c_char_p
    return library


_lib = _load()
_COMBINE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


def version():
    return _lib.tutti_version().decode()


def _call(function, *arguments):
    """Calls tutti_<function>. Every Python int is passed as ctypes takes it; sizes and times say their width."""
    result = getattr(_lib, "tutti_" + function)(*arguments)
    if result != 0:
        raise TuttiError(result, _lib.tutti_result_name(result).decode(), _lib.tutti_last_error().decode(errors="replace"))


def _pointer(array):
    return ctypes.c_void_p(array.address if array else None)


def _size(count):
    return ctypes.c_size_t(count)


class Operator:
    """A reduction by a function of the caller's: combine(target, incoming), two memoryviews of the same elements, changes
    target. `name` is equal on all ranks. What it raises fails the operation on all ranks."""

    def __init__(self, name, combine, commutative=True):
        self.error = None

        def call(target, incoming, count, dtype, _):
            try:
                letter, size = "fdiqBeHbHQ?"[dtype], _SIZES[dtype]
                view = lambda address: memoryview((ctypes.c_char * (count * size)).from_address(address)).cast("B").cast(letter)
                combine(view(target), view(incoming))
                return 0
            except BaseException as error:  # nothing may leave it: the caller is C
                self.error = error
                return 1

        self._function, number = _COMBINE(call), ctypes.c_int()
        _call("op_create", name.encode(), self._function, None, int(commutative), ctypes.byref(number))
        self.number = number.value


def _number(op):
    return op.number if isinstance(op, Operator) else op


class Work:
    """One operation that was started. wait() before using what its buffers receive. Buffers and operator are kept until
    it is complete, by this object, or by the group once this object is dropped."""

    def __init__(self, group, handle, *keeps):
        self._handle, self._keeps, self._dropped = handle, keeps, group._dropped
        group._release_dropped()

    def wait(self):
        """Blocks until complete. Looks up now and then, so that Ctrl-C works."""
        while not self.wait_for(0.2):
            pass

    def wait_for(self, seconds):
        """True if complete within this time; raises what it ended with."""
        completed = ctypes.c_int()
        _call("work_wait_for", self._handle, ctypes.c_int64(int(seconds * 1000)), ctypes.byref(completed))
        return bool(completed.value)

    def is_completed(self):
        completed = ctypes.c_int()
        _call("work_test", self._handle, ctypes.byref(completed))
        return bool(completed.value)

    def source(self):
        """After a completed irecv: the rank that sent."""
        source = ctypes.c_int()
        _call("work_source", self._handle, ctypes.byref(source))
        return source.value

    def __del__(self):
        if _is_over(self._handle):
            _lib.tutti_work_free(self._handle)
        else:
            self._dropped.append((self._handle, self._keeps))


def _is_over(work):
    """Whether this work handle's operation is complete, with success or without."""
    completed = ctypes.c_int()
    _lib.tutti_work_test(work, ctypes.byref(completed))
    return bool(completed.value)


class Store:
    """The keys and values that all ranks of a group see."""

    def __init__(self, group, seconds):
        self._group, self._ms = group, ctypes.c_int64(max(1, int(seconds * 1000)))

    def set(self, key, value):
        _call("store_set", self._group._handle, key.encode(), value, _size(len(value)), self._ms)

    def get(self, key):
        """Waits until the key exists."""
        length, room = ctypes.c_size_t(), 0
        while True:
            value = ctypes.create_string_buffer(room) if room else None
            try:
                _call("store_get", self._group._handle, key.encode(), value, _size(room), ctypes.byref(length), self._ms)
            except TuttiError as error:
                if error.name != "TUTTI_INVALID_ARGUMENT" or length.value <= room:
                    raise
            if length.value <= room:
                return value.raw[:length.value] if room else b""
            room = length.value

    def add(self, key, delta):
        total = ctypes.c_int64()
        _call("store_add", self._group._handle, key.encode(), ctypes.c_int64(delta), ctypes.byref(total), self._ms)
        return total.value

    def wait(self, keys):
        names = (ctypes.c_char_p * len(keys))(*[key.encode() for key in keys])
        _call("store_wait", self._group._handle, names, _size(len(keys)), self._ms)


_groups = weakref.WeakSet()


@atexit.register
def _leave_all():
    """Ends what is still there while Python can still run operators, and says so if an exception ends the program."""
    for group in list(_groups):
        group._leave(getattr(sys, "last_value", None))


class Group:
    """The ranks of a job, or some of them. As a context manager it ends by shutdown(), or, on an exception, abort()."""

    def __init__(self, handle):
        self._handle, self._dropped = handle, collections.deque()
        _groups.add(self)
        self.rank, self.world_size = self._integer("rank"), self._integer("world_size")

    def _integer(self, what):
        value = ctypes.c_int()
        _call(what, self._handle, ctypes.byref(value))
        return value.value

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            self.shutdown()
            self.close()
        else:
            self._leave(error)

    def __del__(self):
        self.close()

    def close(self):
        """Leaves the group: with a goodbye if shutdown() has not said it."""
        handle, self._handle = self._handle, None
        if _lib.tutti_free(handle) == 0:  # which completes the group's operations
            while self._dropped:
                _lib.tutti_work_free(self._dropped.popleft()[0])

    def _leave(self, error):
        """Tells the other ranks which exception ends this one, if any, and closes."""
        if error is not None and self._handle:
            with contextlib.suppress(TuttiError):
                self.abort(f"{type(error).__name__}: {error}")
        self.close()

    def _release_dropped(self):
        """Looks at two dropped operations for each that starts, so that their number stays bounded at a fixed price."""
        for _ in range(min(2, len(self._dropped))):
            work, keeps = self._dropped.popleft()
            if _is_over(work):
                _lib.tutti_work_free(work)
            else:
                self._dropped.append((work, keeps))

    def shutdown(self):
        """Collective: returns when all ranks have finished their operations."""
        _call("shutdown", self._handle)

    def abort(self, reason):
        _call("abort", self._handle, str(reason).encode())

    def error(self):
        """The first failure, or ""."""
        text = ctypes.c_char_p()
        _call("group_error", self._handle, ctypes.byref(text))
        return text.value.decode(errors="replace")

    def store(self, timeout=300.0):
        return Store(self, timeout)

    def split(self, color, key=0):
        """The group of the ranks with the same color; None for a negative one."""
        handle = ctypes.c_void_p()
        _call("split", self._handle, color, key, ctypes.byref(handle))
        return Group(handle) if handle else None

    # Collectives. op: SUM, ... or an Operator.

    def barrier(self):
        _call("barrier", self._handle)

    def broadcast(self, data, root=0, dtype=None):
        a = Array(data, True, dtype)
        _call("broadcast", self._handle, _pointer(a), _size(a.count), a.dtype, root)

    def all_reduce(self, data, op=SUM, dtype=None):
        a = Array(data, True, dtype)
        _call("all_reduce", self._handle, _pointer(a), _size(a.count), a.dtype, _number(op))

    def all_reduce_async(self, data, op=SUM, dtype=None):
        a, handle = Array(data, True, dtype), ctypes.c_void_p()
        _call("all_reduce_async", self._handle, _pointer(a), _size(a.count), a.dtype, _number(op), ctypes.byref(handle))
        return Work(self, handle, a, op)

    def reduce(self, data, output=None, op=SUM, root=0, dtype=None):
        a = Array(data, False, dtype)
        o = self._output(output, root, dtype, a.count)
        _call("reduce", self._handle, _pointer(a), _pointer(o), _size(a.count), a.dtype, _number(op), root)

    def gather(self, data, output=None, root=0, dtype=None):
        a = Array(data, False, dtype)
        o = self._output(output, root, dtype, a.count * self.world_size)
        _call("gather", self._handle, _pointer(a), _pointer(o), _size(a.count), a.dtype, root)

    def all_gather(self, data, output, dtype=None):
        a = Array(data, False, dtype)
        o = self._output(output, self.rank, dtype, a.count * self.world_size)
        _call("all_gather", self._handle, _pointer(a), _pointer(o), _size(a.count), a.dtype)

    def scatter(self, data, output, root=0, dtype=None):
        o = Array(output, True, dtype)
        a = Array(data, False, dtype) if self.rank == root else None
        self._expect(a, o.count * self.world_size)
        _call("scatter", self._handle, _pointer(a), _pointer(o), _size(o.count), o.dtype, root)

    def reduce_scatter(self, data, output, op=SUM, dtype=None):
        a, o = Array(data, False, dtype), Array(output, True, dtype)
        self._expect(a, o.count * self.world_size)
        _call("reduce_scatter", self._handle, _pointer(a), _pointer(o), _size(o.count), o.dtype, _number(op))

    def all_to_all(self, data, output, dtype=None):
        a = Array(data, False, dtype)
        o = self._output(output, self.rank, dtype, a.count)
        self._expect(a, a.count // self.world_size * self.world_size)
        _call("all_to_all", self._handle, _pointer(a), _pointer(o), _size(a.count // self.world_size), a.dtype)

    # Messages between two ranks.

    def send(self, data, destination, tag=0, dtype=None):
        a = Array(data, False, dtype)
        _call("send", self._handle, _pointer(a), _size(a.count), a.dtype, destination, tag)

    def isend(self, data, destination, tag=0, dtype=None):
        a, handle = Array(data, False, dtype), ctypes.c_void_p()
        _call("isend", self._handle, _pointer(a), _size(a.count), a.dtype, destination, tag, ctypes.byref(handle))
        return Work(self, handle, a)

    def recv(self, data, source=ANY_SOURCE, tag=0, dtype=None):
        """Returns the sender's rank."""
        a, sender = Array(data, True, dtype), ctypes.c_int()
        _call("recv", self._handle, _pointer(a), _size(a.count), a.dtype, source, tag, ctypes.byref(sender))
        return sender.value

    def irecv(self, data, source=ANY_SOURCE, tag=0, dtype=None):
        a, handle = Array(data, True, dtype), ctypes.c_void_p()
        _call("irecv", self._handle, _pointer(a), _size(a.count), a.dtype, source, tag, ctypes.byref(handle))
        return Work(self, handle, a)

    def _output(self, output, root, dtype, count):
        """What the root writes to, checked: the library knows addresses, but not where memory ends."""
        if self.rank != root:
            return None
        array = Array(output, True, dtype)
        self._expect(array, count)
        return array

    @staticmethod
    def _expect(array, count):
        if array is not None and array.count != count:
            raise ValueError(f"a buffer has {array.count} elements, but {count} are needed")


def connect(timeout=300.0, name=None, algorithm=None, transport=None, encrypt=False, reproducible=False):
    """Forms the group of all ranks. The place of this one is found as `tutti run`, srun, mpirun or torchrun tell it."""
    options, handle = _GroupOptions(), ctypes.c_void_p()
    _call("group_options_init", ctypes.byref(options), _size(ctypes.sizeof(options)))
    options.timeout_ms = int(timeout * 1000)
    for field, text in (("name", name), ("algorithm", algorithm), ("transport", transport)):
        setattr(options, field, text.encode() if text else None)
    options.encrypt, options.reproducible = int(encrypt), int(reproducible)
    _call("connect", None, ctypes.byref(options), ctypes.byref(handle))
    return Group(handle)
