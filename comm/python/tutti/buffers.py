"""What a buffer is: an object whose elements the library reads or writes where they are.

- whatever has Python's buffer protocol: numpy arrays, array.array, bytearray, memoryview, ctypes arrays;
- a torch.Tensor of the CPU;
- whatever else has `__dlpack__` and lies in the memory of the CPU.

It lies in one piece (C order), and its elements are of one of DTYPES. Nothing is copied: what does not fit is refused, by name.
`dtype` reads the bytes as another type of the same size, or bytes as any type: `all_reduce(bytearray(6), dtype="bfloat16")`.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NoReturn, Optional

from ._library import DTYPES, NUMBERS, SIZES

Buffer = Any  # one of the above

_KINDS = {**dict.fromkeys("efd", "float"), "?": "bool", "c": "uint", **dict.fromkeys("bhilqn", "int"), **dict.fromkeys("BHILQN", "uint")}
_WRITABLE, _C_CONTIGUOUS, _FORMAT = 0x1, 0x38, 0x4  # PyBUF_...
_KINDS_OF_DLPACK = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}
_DLPACK_CPU, _DLPACK_CUDA_HOST, _DLPACK_READ_ONLY, _DLPACK_COPIED = 1, 3, 1, 2


class _PyBuffer(ctypes.Structure):  # Py_buffer of Python's C API
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    def __del__(self) -> None:
        _release_buffer(ctypes.byref(self))  # which does nothing if there is none in it


class _DlTensor(ctypes.Structure):  # DLTensor of DLPack
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DlVersioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DlTensor)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [ctypes.c_void_p], None
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]

_known: dict[Any, int] = {}  # (format, itemsize) of the buffer protocol, or a torch.dtype -> the number of the dtype


class Array:
    """A buffer as the library sees it: address, count of elements, and the number of its dtype. Holds the object until it is
    dropped. `operation` and `argument` are for texts of errors: TypeError (no buffer, wrong dtype or device), BufferError (not in
    one piece, read-only), ValueError (bytes that are no multiple of an element)."""

    __slots__ = ("address", "count", "dtype", "_view", "_owner", "_place")

    def __init__(self, data: Buffer, writable: bool, dtype: Optional[str], operation: str, argument: str) -> None:
        self._view: Any = None
        self._owner, self._place = data, (operation, argument)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(data, getattr(torch, "Tensor", ())):
            number, nbytes = self._of_tensor(data)
        else:
            number, nbytes = self._of_protocol(data, writable)
        if dtype is not None:
            number = self._as(number, dtype)
        self.dtype = number
        self.count = nbytes // SIZES[number]
        if self.count * SIZES[number] != nbytes:
            self.refuse(ValueError, f"has {nbytes} bytes, which is no multiple of the {SIZES[number]} of a {DTYPES[number]}")

    def refuse(self, kind: type[Exception], text: str) -> NoReturn:
        """Raises `kind`: "all_gather: output (numpy.ndarray) ..."."""
        operation, argument = self._place
        whole = type(self._owner)
        name = whole.__name__ if whole.__module__ == "builtins" else f"{whole.__module__}.{whole.__name__}"
        raise kind(f"{operation}: {argument} ({name}) {text}")

    def _of_protocol(self, data: Buffer, writable: bool) -> tuple[int, int]:
        view = _PyBuffer()
        try:
            _get_buffer(data, ctypes.byref(view), _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
        except (BufferError, TypeError, ValueError):  # numpy's raises ValueError for whatever it is
            return self._why_not(data, writable)
        self._view, self.address = view, view.buf
        key = (view.format, view.itemsize)
        if key not in _known:
            letter = (view.format or b"B").decode().lstrip("@=<")
            name = _KINDS.get(letter, "") + ("" if letter == "?" else str(8 * view.itemsize))
            if name not in NUMBERS:
                self.refuse(TypeError, f"has elements of format '{letter}' ({view.itemsize} bytes), none of {', '.join(DTYPES)}")
            _known[key] = NUMBERS[name]
        return _known[key], view.len

    def _why_not(self, data: Buffer, writable: bool) -> tuple[int, int]:
        """What has no buffer as we want it, but may have DLPack."""
        try:
            view = memoryview(data)
        except (BufferError, TypeError, ValueError) as error:
            if isinstance(error, TypeError) and hasattr(data, "__dlpack__"):
                return self._of_dlpack(data, writable)
            self.refuse(TypeError, f"is no buffer: {error}. Give a numpy array, an array.array, a bytearray, a torch tensor, ...")
        if writable and view.readonly:
            self.refuse(BufferError, "is read-only, but is written to: give one that is writable, such as a bytearray or a copy")
        self.refuse(BufferError, "does not lie in one piece (C order): copy it into one that does")

    def _of_tensor(self, data: Any) -> tuple[int, int]:
        if not data.is_cpu:
            self.refuse(TypeError, f"is on {data.device}, but these calls use the memory of the CPU: give its .cpu(), or use tutti.torch")
        if str(data.layout) != "torch.strided" or not data.is_contiguous() or data.is_neg():
            self.refuse(BufferError, "does not lie in one piece: give its .contiguous(), and copy the result back if it is written to")
        if data.dtype not in _known:
            name = str(data.dtype).rpartition(".")[2]
            if name not in NUMBERS:
                self.refuse(TypeError, f"has elements of {data.dtype}, none of {', '.join(DTYPES)}")
            _known[data.dtype] = NUMBERS[name]
        self.address = data.data_ptr()
        return _known[data.dtype], data.numel() * data.element_size()

    def _of_dlpack(self, data: Any, writable: bool) -> tuple[int, int]:
        device = data.__dlpack_device__()[0]
        if device not in (_DLPACK_CPU, _DLPACK_CUDA_HOST):
            self.refuse(TypeError, f"is on a device of DLPack's type {int(device)}, but these calls use the CPU's memory: copy it there")
        try:
            capsule = data.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer of DLPack before 1.0
            capsule = data.__dlpack__()
        flags = 0
        if _capsule_is(capsule, b"dltensor_versioned"):
            versioned = _DlVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
            tensor, flags = versioned.tensor, versioned.flags
        else:
            tensor = _DlTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        self._view = capsule  # which, as long as nobody has renamed it, gives the memory back when it is dropped
        if writable and flags & (_DLPACK_READ_ONLY | _DLPACK_COPIED):
            self.refuse(BufferError, "is read-only, or a copy made by its __dlpack__, but is written to: give one that is writable")
        count, in_one_piece = 1, True
        for i in reversed(range(tensor.ndim)):
            in_one_piece &= not tensor.strides or tensor.shape[i] == 1 or tensor.strides[i] == count
            count *= tensor.shape[i]
        if not in_one_piece and count:
            self.refuse(BufferError, "does not lie in one piece (C order): copy it into one that does")
        name = _KINDS_OF_DLPACK.get(tensor.code, "") + ("" if tensor.code == 6 else str(tensor.bits))
        if name not in NUMBERS or tensor.lanes != 1:
            self.refuse(TypeError, f"has elements of DLPack's type {tensor.code} of {tensor.lanes} x {tensor.bits} bits, none of "
                                   + ", ".join(DTYPES))
        self.address = (tensor.data or 0) + tensor.byte_offset
        return NUMBERS[name], count * SIZES[NUMBERS[name]]

    def _as(self, own: int, dtype: str) -> int:
        """The number of `dtype`, which elements of the buffer's own type can be read as."""
        if dtype not in NUMBERS:
            raise ValueError(f"{self._place[0]}: dtype {dtype!r} is none of {', '.join(DTYPES)}")
        number = NUMBERS[dtype]
        if SIZES[own] not in (1, SIZES[number]):
            self.refuse(TypeError, f"has elements of {DTYPES[own]}, which cannot be read as {dtype}: the sizes differ")
        return number
