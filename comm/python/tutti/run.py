"""tutti.run: `tutti run`, the launcher, for programs in this Python.

    tutti.run -n 4 prog.py             # as `tutti run -n 4 prog.py`; also: python3 -m tutti.run ...
    tutti.run -n 4 -- python3 prog.py

The launcher is a program of its own, built from Tutti's sources; it is not inside the package. torchrun, srun and mpirun start
ranks as well.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import Optional


def find_launcher() -> Optional[str]:
    """$TUTTI_BINARY, else beside this package, else of a build folder of this source tree, else on PATH."""
    if os.environ.get("TUTTI_BINARY"):
        return os.environ["TUTTI_BINARY"]
    here = pathlib.Path(__file__).resolve().parent
    places = [here / "tutti"]
    if (here.parents[1] / "c" / "tutti.h").exists():  # comm/python of the source tree
        build = here.parents[2] / "build"
        places += [build / "release" / "bin" / "tutti", *sorted(build.glob("*/bin/tutti"))]
    return next((str(place) for place in places if place.is_file() and os.access(place, os.X_OK)), None) or shutil.which("tutti")


def main() -> None:
    """Becomes the launcher, with the same arguments."""
    launcher = find_launcher()
    if launcher is None:
        sys.exit("tutti.run: the launcher `tutti` is neither beside this package nor on PATH. Build it in Tutti's source tree (cmake "
                 "--preset release && cmake --build --preset release --target tutti), and name it by TUTTI_BINARY=build/release/bin/tutti "
                 "or put it on PATH; or start the program by torchrun, srun or mpirun")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    try:
        os.execv(launcher, [launcher, "run", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tutti.run: cannot start the launcher {launcher}: {error.strerror}. TUTTI_BINARY names another one")


if __name__ == "__main__":
    main()
