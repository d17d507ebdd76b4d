#!/usr/bin/env python3
"""Checks what the compiler does not: which layer and which folder includes which, and that every test file is built.

    tools/check_layers.py [ROOT]

Prints "file:line: what is wrong (the rule)" for each finding and ends with status 1 if there is one. ctest runs it as
`layers`. The rules stand in structure.py and CONTRIBUTING.md.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
from structure import ALLOWED, STOREY_OF_FILE, STOREYS

OUTSIDE_LAYERS = {"tests", "bench"}  # may include all layers, and each its own helpers
# Programs as other projects would have them: they see what is installed, and use what they like beside it.
FOREIGN_PROGRAMS = "tools/examples/embedding/"

# What users of the comm layer include: nothing but the standard library and comm itself.
PUBLIC_COMM = re.compile(
    r"comm/((process_group|work|trace)|base/[^/]+|bootstrap/world|wire/job_secret|"
    r"store/(store|file_store|hash_store|prefix_store|tcp_store|tcp_store_server)|c/tutti\w*)\.h$"
)
C_LIBRARY = {"stddef.h", "stdint.h"}  # what C has instead of <cstddef>: the C API's headers are C

# Libraries that stay in source files, so that no user of a header needs them. The folders below
# are those libraries' own corners: nothing outside includes their headers but their layer's .cc files.
HIDDEN_LIBRARIES = re.compile(
    r"^((asio|Eigen|unsupported|openssl|CLI|spdlog|fmt|nlohmann)(/|\.|$)|zlib\.h|(cuda|cublas|cudnn|nccl)[\w.]*$)"
)

LIBRARY_CORNERS = (
    "tensor/cuda/",
    "comm/store/store_connection.h",
    "comm/store/store_loop.h",
    "comm/transport/tcp/",
    "tests/support/cuda_emulator/",
    "trainer/device/nccl_library.h",
)

# Numbers written so follow the locale of the program that uses the library.
LOCALE_NUMBERS = re.compile(r"std::o?stringstream\b|printf\(.*%[-+#0-9.*]*l?[aefg]", re.IGNORECASE)
LOCALE_LAYERS = ("comm/", "trainer/")
LOCALE_HOMES = {"comm/base/format.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".cu", ".cuh"}
MAX_LINES = 500


def is_header(path):
    return path.suffix in {".h", ".cuh"}


def storey(name):
    """(place from the ground up, folder) of a file of a layer that has storeys."""
    layer, *folders = name.split("/")
    folder = STOREY_OF_FILE.get(name, folders[0] if len(folders) > 1 else "")
    return (STOREYS[layer].index(folder) if folder in STOREYS[layer] else -1), folder


def check_storey(name, target):
    """The rule of structure.py that an include within a layer breaks, or None."""
    (here, folder), (there, other) = storey(name), storey(target)
    if -1 in (here, there):
        return f"{folder if here < 0 else other} is no folder that structure.py knows a storey of"
    if there > here:
        return f"{folder} includes {target} ({other or 'the top folder'} is a storey above it: see structure.py)"
    return None


def check_include(name, layer, header, form, target):
    """The rule that one include line of file `name` breaks, or None."""
    if form == '"':
        if layer in OUTSIDE_LAYERS:
            return None
        return f'"{target}" is not written <tutti/...> (includes read the same in the tree and when installed)'
    if target.startswith("tutti/"):
        other = target.split("/")[1]
        if layer in ALLOWED and other not in ALLOWED[layer]:
            allowed = ", ".join(sorted(ALLOWED[layer]))
            return f"{layer} includes {target} ({layer} may include only {allowed})"
        if PUBLIC_COMM.match(name) and other != "comm":
            return f"{target} in a public header of comm (only the standard library and comm)"
        return check_storey(name, target.removeprefix("tutti/")) if layer == other and layer in STOREYS else None
    if header and HIDDEN_LIBRARIES.match(target) and not name.startswith(LIBRARY_CORNERS):
        return f"{target} in a header (this library stays in source files)"
    if PUBLIC_COMM.match(name) and ("/" in target or target.endswith(".h")) and target not in C_LIBRARY:
        return f"{target} in a public header of comm (only the standard library and comm)"
    return None


def check_source(root, path):
    name = path.relative_to(root).as_posix()
    layer = name.split("/")[0]
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        include = not name.startswith(FOREIGN_PROGRAMS) and INCLUDE.match(line)
        finding = include and check_include(name, layer, is_header(path), *include.groups())
        if finding:
            yield f"{name}:{number}: {finding}"
        if name.startswith(LOCALE_LAYERS) and name not in LOCALE_HOMES and LOCALE_NUMBERS.search(line):
            yield f"{name}:{number}: numbers that follow the locale (what comm/base/format.h has does not)"
    if is_header(path) and "#pragma once" not in lines:
        yield f"{name}:1: no #pragma once (every header has it)"
    if len(lines) > MAX_LINES:
        yield f"{name}:{len(lines)}: {len(lines)} lines (a file has at most {MAX_LINES}; split it by responsibility)"


def check_listed(root, test):
    """A test file must stand in the CMakeLists.txt of its folder or of one above it."""
    for folder in test.relative_to(root).parents:
        lists = root / folder / "CMakeLists.txt"
        if folder.parts and lists.exists():
            listed = re.sub(r"#.*", "", lists.read_text(encoding="utf-8")).split()
            if test.relative_to(root / folder).as_posix() in (word.strip('()"') for word in listed):
                return
    name = test.relative_to(root).as_posix()
    yield f"{name}:1: in no CMakeLists.txt (a test that is not built is a lie)"


def check_lists(root, path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if re.match(r"\s*file\s*\(\s*GLOB", line, re.IGNORECASE):
            yield f"{path.relative_to(root).as_posix()}:{number}: file(GLOB) (sources are listed by name)"


def findings(root):
    for layer in [*ALLOWED, *sorted(OUTSIDE_LAYERS)]:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix in SOURCES:
                yield from check_source(root, path)
            if path.name.endswith(("_test.cc", "_test.cu")) and layer == "tests":
                yield from check_listed(root, path)
            if path.name == "CMakeLists.txt":
                yield from check_lists(root, path)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(findings(root))
    print("\n".join(found) if found else f"layers: {root} keeps the rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
