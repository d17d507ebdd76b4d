"""libtutti_c by ctypes: found, loaded, compared and declared. Whatever else calls it does so through call().

The library is $TUTTI_C_LIBRARY, else the one inside this package (a wheel has it), else one of a build folder of this source
tree, else what the system's loader finds.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any, Optional

ABI_VERSION = 1
ANY_SOURCE = -1
INVITATION_SIZE = 1536
SUM, AVG, PROD, MIN, MAX, BAND, BOR, BXOR = range(8)
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16", "int8", "uint16", "uint64", "bool")
SIZES = (4, 8, 4, 8, 1, 2, 2, 1, 2, 8, 1)  # bytes of an element, in the order of DTYPES
FORMATS = "fdiqBHHbHQ?"  # as memoryview shows them; 16-bit floating point as its bits
NUMBERS = {name: number for number, name in enumerate(DTYPES)}


def _fitting(kind: Any, bits: int) -> Any:
    """`kind`, an integer of ctypes, as a parameter that takes no number which does not fit; ctypes' own would cut it."""

    def from_param(cls: Any, value: int) -> Any:
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise TypeError(f"{value} does not fit {bits} bits")
        return cls(value)

    return type(kind.__name__, (kind,), {"from_param": classmethod(from_param)})


Int = _fitting(ctypes.c_int, 32)
_TYPES = {"p": ctypes.c_void_p, "s": ctypes.c_char_p, "n": ctypes.c_size_t, "i": Int, "l": _fitting(ctypes.c_int64, 64)}
# Parameters of each function of comm/c/*.h: p any pointer, s text, n size_t, i int, l int64_t.
_WITH_ASYNC = ("broadcast:ppnii reduce:pppniii all_reduce:ppnii all_reduce_rounded:pppn gather:pppnii all_gather:pppni scatter:pppnii "
               "reduce_scatter:pppnii all_to_all:pppni gather_v:ppppii scatter_v:ppppii all_gather_v:ppppi "
               "reduce_scatter_v:ppppii all_to_all_v:pppppi barrier:p")
_OTHERS = ("abi_version: version: result_name:i last_error: size_of:ip op_create:sppip op_free:i world_options_init:pn world_detect:pp "
           "world_describe:pp world_free:p group_options_init:pn connect:ppp rank:pp world_size:pp group_describe:pp "
           "world_ranks:ppn split:piip subgroup:ppnp shutdown:p abort:ps free:p group_error:pp recent_operations:ppnp "
           "allocate:pnp buffer_data:ppp buffer_free:p work_wait:p work_wait_for:plp work_test:pp work_source:pp work_free:p "
           "work_on_completion:ppp invite:iipn "
           "send:ppniii isend:ppniiip recv:ppniiip irecv:ppniiip sendrecv:ppniipniiip store_set:pspnl store_get:pspnpl "
           "store_wait:ppnl store_add:pslpl store_check:pspl store_delete:pspl")


def signatures() -> dict[str, str]:
    """The letters of the parameters of tutti_NAME, for every NAME of the C API."""
    table = dict(entry.split(":") for entry in _OTHERS.split())
    for entry in _WITH_ASYNC.split():
        name, letters = entry.split(":")
        table[name], table[name + "_async"] = letters, letters + "p"
    return table


class TuttiError(RuntimeError):
    """What a call ended with: `code` is a number of tutti_results, `name` its name ("TUTTI_TIMEOUT"); the text is the library's."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(text)
        self.code, self.name, self.text = code, name, text

    def __reduce__(self) -> tuple[Any, ...]:
        return TuttiError, (self.code, self.name, self.text)


class GroupOptions(ctypes.Structure):  # tutti_group_options
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64),
                ("report_after_ms", ctypes.c_int64), ("algorithm", ctypes.c_char_p), ("transport", ctypes.c_char_p),
                ("bind_address", ctypes.c_char_p), ("interface_name", ctypes.c_char_p), ("segment_bytes", ctypes.c_size_t),
                ("reproducible", ctypes.c_int), ("encrypt", ctypes.c_int), ("trace_file", ctypes.c_char_p)]


class GroupInfo(ctypes.Structure):  # tutti_group_info
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int), ("world_size", ctypes.c_int),
                ("timeout_ms", ctypes.c_int64), ("name", ctypes.c_char_p), ("transport", ctypes.c_char_p)]


class WorldOptions(ctypes.Structure):  # tutti_world_options
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int), ("world_size", ctypes.c_int),
                ("master_addr", ctypes.c_char_p), ("master_port", ctypes.c_int), ("store", ctypes.c_char_p),
                ("launcher", ctypes.c_char_p)]


class WorldInfo(ctypes.Structure):  # tutti_world_info
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int), ("world_size", ctypes.c_int),
                ("local_rank", ctypes.c_int), ("local_world_size", ctypes.c_int), ("cpus_per_rank", ctypes.c_int),
                ("master_addr", ctypes.c_char_p), ("master_port", ctypes.c_int), ("job_id", ctypes.c_char_p),
                ("detected_from", ctypes.c_char_p)]


def _library_path() -> str:
    if os.environ.get("TUTTI_C_LIBRARY"):
        return os.environ["TUTTI_C_LIBRARY"]
    here = pathlib.Path(__file__).resolve().parent
    places = [here] + [folder / place for folder in here.parents for place in ("build/release/lib", "lib")]
    for place in places:
        if (place / f"libtutti_c.so.{ABI_VERSION}").exists():
            return str(place / f"libtutti_c.so.{ABI_VERSION}")
    return f"libtutti_c.so.{ABI_VERSION}"


def _load() -> ctypes.CDLL:
    path = _library_path()
    try:
        library = ctypes.CDLL(path)
        version = library.tutti_abi_version()
    except (OSError, AttributeError) as error:
        raise ImportError(f"tutti: cannot load its library: {error}. Install the package with pip (pip install comm/python), build the "
                          "library (cmake --preset release && cmake --build --preset release --target tutti_c), or name it by "
                          "TUTTI_C_LIBRARY") from None
    if version < ABI_VERSION:
        raise ImportError(f"tutti: {path} has version {version} of the C API, but this package needs {ABI_VERSION}: build it anew")
    for name, letters in signatures().items():
        function = getattr(library, "tutti_" + name)
        function.argtypes = [_TYPES[letter] for letter in letters]
        function.restype = ctypes.c_char_p if name in ("version", "result_name", "last_error") else ctypes.c_int
    return library


lib = _load()
_functions = {name: getattr(lib, "tutti_" + name) for name in signatures()}


def error_of(result: int) -> TuttiError:
    """What the latest call of this thread has ended with."""
    return TuttiError(result, lib.tutti_result_name(result).decode(), lib.tutti_last_error().decode(errors="replace"))


def result_of(function: str, *arguments: Any) -> int:
    """Of tutti_<function>, which is called while other Python threads run. TypeError: an argument that C cannot take."""
    try:
        return _functions[function](*arguments)
    except ctypes.ArgumentError as error:
        raise TypeError(f"tutti_{function}: {error}") from None


def call(function: str, *arguments: Any) -> None:
    """Calls tutti_<function>, while other Python threads run. Raises TuttiError unless it returns TUTTI_OK."""
    result = result_of(function, *arguments)
    if result:
        raise error_of(result)


def version() -> str:
    """Of the library that is loaded, "0.1.0"."""
    return lib.tutti_version().decode()


def typed_view(memory: Any, dtype: int) -> memoryview:
    """A ctypes array of bytes as elements of the dtype with this number. Lives as long as the view does."""
    letter: Any = FORMATS[dtype]
    return memoryview(memory).cast("B").cast(letter)


def encoded(text: Optional[str]) -> Optional[bytes]:
    """A text as C wants it; None stands for NULL."""
    if text is not None and "\0" in text:
        raise ValueError(f"{text!r} holds a NUL, where C would end it")
    return None if text is None else text.encode()


def milliseconds(seconds: float) -> int:
    """A time as C wants it: 1 or more."""
    return max(1, int(seconds * 1000))
