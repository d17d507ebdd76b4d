#!/usr/bin/env python3
"""The Python package tutti on three ranks: its example, everything it offers (python_rank.py), and how programs end.

    python_test.py TUTTI LIBRARY plain | numpy | torch | wheel

`plain` hides numpy, so that the example falls back on the array module. `wheel` builds the package around LIBRARY and uses it
from where pip put it. Ends with 77, which ctest counts as skipped, where what is named is not there.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
PACKAGE = SOURCE / "comm" / "python"
WITHOUT_NUMPY = ("import runpy, sys; sys.modules['numpy'] = None; sys.argv = sys.argv[1:]; "
                 "runpy.run_path(sys.argv[0], run_name='__main__')")


class Tree:
    """The package as it lies in the source tree or, with `path`, elsewhere, and how ranks are started that use it."""

    def __init__(self, tutti, library, path=PACKAGE):
        self.tutti = tutti
        self.environment = {**os.environ, "TUTTI_C_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(path)}
        if not library:
            del self.environment["TUTTI_C_LIBRARY"]

    def run(self, *command, **more):
        """Three ranks of this Python with these arguments."""
        return self.start(self.tutti, "run", "-n", "3", "--no-label", "--", sys.executable, *command, **more)

    def start(self, *command, **more):
        return subprocess.run(command, env={**self.environment, **more}, capture_output=True, text=True, timeout=120, check=False)


def expect(good, *what):
    if not good:
        print("FAILED:", *what)
        sys.exit(1)


def check_ranks(tree, mode):
    result = tree.run(str(HERE / "python_rank.py"), mode)
    expect(result.returncode == 0, result.stdout, result.stderr)
    expect(sorted(result.stdout.splitlines()) == [f"rank {r}: all well" for r in range(3)], result.stdout)


def check_example(tree, kind, hide):
    script = str(SOURCE / "tools" / "examples" / "python" / "all_reduce.py")
    result = tree.run(*(["-c", WITHOUT_NUMPY] if hide else []), script, "1000")
    expect(result.returncode == 0, "all_reduce.py:", result.stdout, result.stderr)
    wanted = [f"rank {rank} of 3: {kind} x 1000, first 3, last 3000, 0 wrong" for rank in range(3)]
    expect(sorted(result.stdout.splitlines()) == wanted, result.stdout, "is not", wanted)


def check_declarations(tree):
    """The types that ctypes was told are those of the headers. A function that Python has no use for need not be there."""
    letters = {"size_t": "n", "int": "i", "tutti_dtype": "i", "tutti_op": "i", "tutti_result": "i", "int64_t": "l", "tutti_combine": "p"}
    declared = {}
    for header in sorted((SOURCE / "comm" / "c").glob("*.h")):
        for name, parameters in re.findall(r"(?m)^(?:int|const char\*|tutti_result) tutti_(\w+)\(([^;]*)\);", header.read_text()):
            parameters = re.sub(r"void \(\*(\w+)\)\(.*?\)", r"void* \1", parameters)  # a function
            types = [re.sub(r"\w+$", "", one.strip()).strip() for one in parameters.split(",") if one.strip() != "void"]
            declared[name] = "".join("s" if one == "const char*" else "p" if "*" in one else letters[one] for one in types)
    result = tree.start(sys.executable, "-c", "import tutti._library as library; print(library.signatures())")
    expect(result.returncode == 0, result.stderr)
    own = eval(result.stdout)  # pylint: disable=eval-used
    wrong = {name: (letters, declared.get(name)) for name, letters in own.items() if declared.get(name) != letters}
    expect(not wrong and len(own) > 70, "declared differently:", wrong)


def check_failure(tree):
    """An operator that raises fails the group on all ranks; the with-statement says why, and the rank it raised on shows it."""
    result = tree.run("-c", "import array, tutti\ndef refuse(target, incoming):\n    raise RuntimeError('no')\n"
                      "with tutti.connect() as group:\n    group.all_reduce(array.array('f', [1]), tutti.Operator('refuses', refuse))\n")
    expect(result.returncode == 1, "an operator's error is lost:", result.stdout, result.stderr)
    expect(re.search(r"TuttiError: tutti_all_reduce: .*the operator 'refuses' threw: it returned 1", result.stderr), result.stderr)
    expect("RuntimeError: no" in result.stderr, result.stderr)


def check_dropped(tree):
    """Whatever started and was dropped has no other owner than the package."""
    script = ("import array, sys, tutti\nnew = lambda count=100_000: array.array('d', [1.0] * count)\n"
              "def add(target, incoming):\n    target[0] += incoming[0]\n"
              "group = tutti.connect(timeout=60)\nright, left = (group.rank + 1) % 3, (group.rank + 2) % 3\n"
              "for _ in range(50):\n    group.all_reduce_async(new())\n    group.irecv(new(), left)\n    group.isend(new(), right)\n"
              "    group.all_reduce_async(new(1), tutti.Operator('add', add))\n"
              "group.irecv(new(), left, tag=9)\n"  # is never sent: the group's end ends it
              "group.barrier()\nif len(sys.argv) > 1:\n    group.shutdown()\n")
    for arguments in ([], ["shutdown"]):
        result = tree.run("-c", script, *arguments)
        expect(result.returncode == 0, "dropped works:", arguments, result.stdout, result.stderr)


def check_exception(tree):
    """The other ranks are told which exception ended one, in a with-statement and without. sys.exit(0) is none."""
    body = "if group.rank == 1:\n        raise ValueError('bad sample')\n    group.barrier()\n"
    for script in ("with tutti.connect() as group:\n    " + body,
                   "group = tutti.connect()\nif True:\n    " + body,
                   "def work():\n    group = tutti.connect()\n    " + body + "work()\n"):
        result = tree.run("-c", "import tutti\n" + script)
        told = re.search(r"TuttiError: .*ValueError: bad sample", result.stderr)
        expect(result.returncode == 1 and told, "what ended rank 1 is not told:", script, result.stdout, result.stderr)
    result = tree.run("-c", "import sys, tutti\nwith tutti.connect() as group:\n    group.barrier()\n    sys.exit(0)\n")
    expect(result.returncode == 0 and not result.stderr, "sys.exit(0):", result.stdout, result.stderr)


def check_launching(tree, folder):
    """tutti.run becomes the launcher that TUTTI_BINARY names, and says where one comes from; a package says so of its library."""
    shutil.copytree(PACKAGE / "tutti", folder / "alone" / "tutti", ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
    alone = Tree(tree.tutti, tree.environment["TUTTI_C_LIBRARY"], folder / "alone")
    program = folder / "program.py"
    program.write_text("import sys, tutti\nwith tutti.connect() as group:\n    print(group.all_gather_object(sys.executable))\n")
    result = alone.start(sys.executable, "-m", "tutti.run", "-n", "2", "--no-label", str(program), TUTTI_BINARY=tree.tutti)
    expect(result.returncode == 0 and result.stdout == 2 * f"{[sys.executable] * 2}\n", result.stdout, result.stderr)
    result = alone.start(sys.executable, "-m", "tutti.run", "-n", "2", str(program), PATH="", TUTTI_BINARY="")
    expect(result.returncode == 1 and "TUTTI_BINARY=build/release/bin/tutti" in result.stderr, result.stdout, result.stderr)
    result = alone.start(sys.executable, "-m", "tutti.run", TUTTI_BINARY="/none")
    expect(result.returncode == 1 and "cannot start the launcher /none: No such file" in result.stderr, result.stdout, result.stderr)
    result = alone.start(sys.executable, "-c", "import tutti", TUTTI_C_LIBRARY="/none.so")
    expect(result.returncode == 1 and "ImportError: tutti: cannot load its library: /none.so" in result.stderr, result.stderr)


def check_old_torch(tree, folder):
    """A PyTorch over which DDP would hang is refused where the backend is imported."""
    (folder / "torch.py").write_text("__version__ = '2.4.1+cu121'\n")
    result = tree.start(sys.executable, "-c", "import tutti.torch", PYTHONPATH=f"{folder}:{PACKAGE}")
    expect("ImportError: tutti.torch needs PyTorch 2.8 or later, found 2.4.1+cu121" in result.stderr, result.stderr)


def check_wheel(tree, folder):
    """pip makes one wheel for all versions of Python 3, which needs nothing else, and what it installs works from there."""
    built = tree.start(sys.executable, "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps",
                       "--disable-pip-version-check", "-w", str(folder), str(PACKAGE),
                       TUTTI_PYTHON_BUILD=str(folder / "build"), PYTHONPATH="")
    expect(built.returncode == 0, "pip wheel:", built.stdout, built.stderr)
    wheels = [path.name for path in folder.glob("*.whl")]
    expect(len(wheels) == 1 and re.fullmatch(r"tutti-[0-9.]+-py3-none-linux_\w+\.whl", wheels[0]), wheels)
    place = folder / "installed"
    installed = tree.start(sys.executable, "-m", "pip", "install", "--no-index", "--disable-pip-version-check", "--target", str(place),
                           str(folder / wheels[0]), PYTHONPATH="")
    expect(installed.returncode == 0, "pip install:", installed.stdout, installed.stderr)
    here = Tree(tree.tutti, "", place)
    result = here.run("-c", "import tutti, tutti._library as own\n"
                      "with tutti.connect() as group:\n    print(own.lib._name, group.all_gather_object(1))\n")
    expect(result.returncode == 0 and result.stdout == 3 * f"{place}/tutti/libtutti_c.so.1 [1, 1, 1]\n", result.stdout, result.stderr)
    result = here.start(str(place / "bin" / "tutti.run"), "-n", "1", "--no-label", "-c", "true", TUTTI_BINARY="/bin/echo")
    expect(result.stdout == "run -n 1 --no-label -c true\n", result.stdout, result.stderr)
    expect("Requires-Dist" not in next(place.glob("*.dist-info/METADATA")).read_text(), "it needs other packages")


def missing(*modules):
    """Says what is not there."""
    names = [name for name in modules if importlib.util.find_spec(name) is None]
    if names:
        print(f"skipped: {sys.executable} has no {', '.join(names)}")
    return bool(names)


def can_build():
    """Whether pip can build without fetching anything."""
    if missing("pip", "setuptools"):
        return False
    version = importlib.metadata.version("setuptools")
    major, minor = map(int, version.split(".")[:2])
    if major < 66:
        print(f"skipped: {sys.executable} has setuptools {version}, and 66 is needed")
        return False
    return (major, minor) >= (70, 1) or not missing("wheel")  # that one has it itself


def main():
    tree, mode = Tree(*sys.argv[1:3]), sys.argv[3]
    if mode == "plain":
        check_declarations(tree)
        check_example(tree, "array.array", hide=True)
        check_ranks(tree, mode)
        check_failure(tree)
        check_dropped(tree)
        check_exception(tree)
        with tempfile.TemporaryDirectory() as folder:
            check_launching(tree, pathlib.Path(folder))
            check_old_torch(tree, pathlib.Path(folder))
    elif mode == "wheel":
        if not can_build():
            return 77
        with tempfile.TemporaryDirectory() as folder:
            check_wheel(tree, pathlib.Path(folder))
    else:
        if missing(mode):
            return 77
        check_ranks(tree, mode)
        if mode == "numpy":
            check_example(tree, "numpy.float32", hide=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
