"""Builds libtutti_c by CMake from the source tree that this folder is in, and puts it into the package.

CMAKE_ARGS: more arguments for CMake, such as -DTUTTI_MARCH=native (this machine's processor; the default is x86-64-v3, for mixed
clusters) or -DOPENSSL_USE_STATIC_LIBS=OFF. TUTTI_C_LIBRARY: a library that was built before, taken instead. TUTTI_PYTHON_BUILD: the
folder to build in; build/python of the source tree.
"""

import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TUTTI_PYTHON_BUILD", ROOT / "build" / "python"))
NAME = "libtutti_c.so.1"


def sources() -> str:
    """The text of the source tree's CMakeLists.txt."""
    try:
        return (ROOT / "CMakeLists.txt").read_text()
    except OSError:
        sys.exit(f"tutti: {ROOT} is not Tutti's source tree, which the library is built from: run pip install comm/python in the tree")


def library() -> pathlib.Path:
    """Built, or given by TUTTI_C_LIBRARY."""
    if os.environ.get("TUTTI_C_LIBRARY"):
        given = pathlib.Path(os.environ["TUTTI_C_LIBRARY"])
        return given if given.is_file() else sys.exit(f"tutti: there is no file TUTTI_C_LIBRARY={given}")
    cmake = shutil.which("cmake")
    if cmake is None:
        sys.exit("tutti: its library is built by CMake 3.25 or later, which is not on PATH: install cmake, a C++20 compiler and libssl-dev "
                 "(tools/quickstart installs all), or give a library that was built before by TUTTI_C_LIBRARY")
    settings = {"CMAKE_BUILD_TYPE": "Release", "TUTTI_COMM_ONLY": "ON", "TUTTI_TESTS": "OFF", "TUTTI_BENCH": "OFF", "TUTTI_INSTALL": "OFF",
                "TUTTI_MARCH": "x86-64-v3" if platform.machine() == "x86_64" else "", "BUILD_SHARED_LIBS": "OFF",
                "OPENSSL_USE_STATIC_LIBS": "ON", "CMAKE_SHARED_LINKER_FLAGS": "-static-libstdc++ -static-libgcc -s"}
    build = BUILD / "cmake"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run([cmake, "-S", str(ROOT), "-B", str(build), *generator, *(f"-D{name}={value}" for name, value in settings.items()),
                    *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
    subprocess.run([cmake, "--build", str(build), "--target", "tutti_c", "--parallel", str(len(os.sched_getaffinity(0)))], check=True)
    return build / "lib" / NAME


class BuildWithLibrary(build_py):
    """The Python files, and the library beside them."""

    def run(self) -> None:
        shutil.rmtree(pathlib.Path(self.build_lib) / "tutti", ignore_errors=True)  # what an older tree had
        super().run()
        if not self.editable_mode:  # which finds the library of a build folder
            shutil.copy(library(), pathlib.Path(self.build_lib) / "tutti" / NAME)


class AnyPython(bdist_wheel):
    """One wheel for all versions of Python 3 on this kind of machine: the library is loaded by ctypes."""

    def get_tag(self) -> tuple:
        return ("py3", "none", super().get_tag()[2])


class WithLibrary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


version = re.search(r"project\(tutti VERSION ([0-9.]+)", sources())
BUILD.mkdir(parents=True, exist_ok=True)
setup(version=version[1], distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython},
      options={"build": {"build_base": str(BUILD)}, "egg_info": {"egg_base": str(BUILD)}})
