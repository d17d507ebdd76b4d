#!/usr/bin/env python3
"""Tutti from Python, on three ranks: the example program, and everything that tools/examples/python/tutti.py offers.

    python_test.py TUTTI LIBRARY numpy | plain

`plain` hides numpy, so that the example falls back on the array module. Ends with 77, which ctest counts as skipped, where
numpy is wanted and not there, or where the library is one of a sanitizer, which Python would have to be started with.
"""

import array
import os
import pathlib
import re
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "tools" / "examples" / "python"
WITHOUT_NUMPY = ("import runpy, sys; sys.modules['numpy'] = None; sys.argv = sys.argv[1:]; "
                 "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')")


def run(tutti, library, *command, seconds=120):
    environment = {**os.environ, "TUTTI_C_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([tutti, "run", "-n", "3", "--no-label", "--", sys.executable, *command], env=environment,
                          capture_output=True, text=True, timeout=seconds, check=False)


def expect(good, *what):
    if not good:
        print("FAILED:", *what)
        sys.exit(1)


def check_example(tutti, library, kind, hide):
    script = str(EXAMPLES / "all_reduce.py")
    result = run(tutti, library, *(["-c", WITHOUT_NUMPY] if hide else []), script, "1000")
    expect(result.returncode == 0, "all_reduce.py:", result.stdout, result.stderr)
    wanted = [f"rank {rank} of 3: {kind} x 1000, first 3, last 3000, 0 wrong" for rank in range(3)]
    expect(sorted(result.stdout.splitlines()) == wanted, result.stdout, "is not", wanted)


def rank():
    """One rank of the wrapper's own test."""
    sys.path.insert(0, str(EXAMPLES))
    import tutti  # pylint: disable=import-outside-toplevel,import-error

    with tutti.connect(timeout=60) as group:
        me, ranks = group.rank, group.world_size
        expect(ranks == 3, "world size", ranks)
        collectives(tutti, group, me)
        messages(group, me)
        others(tutti, group, me)
    try:
        group.barrier()
        expect(False, "a group that has been left still works")
    except tutti.TuttiError as error:
        expect(error.name == "TUTTI_INVALID_ARGUMENT" and error.code == 1, error.name)
    print(f"rank {me}: all well")


def collectives(tutti, group, me):
    values = array.array("q", [me, 10 * me])
    group.all_reduce(values, tutti.MAX)
    expect(list(values) == [2, 20], values)
    group.broadcast(values := array.array("d", [me]), root=1)
    expect(values[0] == 1, values)
    blocks = array.array("i", [0] * 6)
    group.all_gather(array.array("i", [me, -me]), blocks)
    expect(list(blocks) == [0, 0, 1, -1, 2, -2], blocks)
    group.reduce_scatter(blocks, own := array.array("i", [0, 0]))
    expect(list(own) == [3 * me, -3 * me], own)
    group.all_to_all(array.array("B", [10 * me, 10 * me + 1, 10 * me + 2]), got := array.array("B", [0, 0, 0]))
    expect(list(got) == [me, 10 + me, 20 + me], got)
    group.gather(array.array("f", [me]), whole := array.array("f", [9] * 3), root=2)
    expect(list(whole) == ([0, 1, 2] if me == 2 else [9] * 3), whole)
    group.scatter(whole if me == 2 else None, back := array.array("f", [7]), root=2)
    expect(back[0] == me, back)
    group.reduce(array.array("b", [me]), total := array.array("b", [0]))
    expect(total[0] == (3 if me == 0 else 0), total)
    bits = bytearray(6)  # three numbers of a type that Python has not
    bits[1] = 0x3F
    bits[0] = 0x80
    group.all_reduce(bits, dtype="bfloat16")  # 1 + 1 + 1
    expect(bytes(bits) == b"\x40\x40\0\0\0\0", bits.hex())
    work = group.all_reduce_async(values := array.array("d", range(1000)))
    work.wait()
    expect(work.is_completed() and values[999] == 2997, values[999])


def messages(group, me):
    if me == 0:
        group.send(b"hello", 1, tag=3)
        group.isend(array.array("d", [2.5]), 2).wait()
    if me == 1:
        expect(group.recv(text := bytearray(5), tag=3) == 0 and text == b"hello", text)
    if me == 2:
        work = group.irecv(value := array.array("d", [0]))
        work.wait()
        expect(work.source() == 0 and value[0] == 2.5, value)


def others(tutti, group, me):
    def keep_longer(target, incoming):
        for i, value in enumerate(incoming):
            if abs(value) > abs(target[i]):
                target[i] = value

    group.all_reduce(values := array.array("i", [me - 2, 1]), tutti.Operator("longer", keep_longer))
    expect(values[0] == -2, values)
    half = group.split(me % 2)
    expect(half.world_size == (2 if me != 1 else 1), half.world_size)
    half.shutdown()
    store = group.store(timeout=60)
    if me == 0:
        store.set("key", b"x" * 100)
        store.set("empty", b"")
    expect(store.get("key") == b"x" * 100 and store.get("empty") == b"", "store")
    store.wait(["key"])
    expect(1 <= store.add("number", 1) <= 3, "add")
    for wrong, refusal in ((array.array("u", "abc"), TypeError), ("text", TypeError), (b"read only", BufferError),
                           (memoryview(array.array("i", range(6)))[::2], BufferError)):
        try:
            group.all_reduce(wrong)
            expect(False, wrong, "was taken")
        except refusal:
            pass
    try:
        group.all_gather(array.array("i", [1]), array.array("i", [0]))
        expect(False, "a short output was taken")
    except ValueError as error:
        expect("1 elements, but 3 are needed" in str(error), error)
    try:
        group.broadcast(values, root=5)
        expect(False, "root 5 was taken")
    except tutti.TuttiError as error:
        expect("root 5 is no rank" in str(error), error)
    expect(group.error() == "", group.error())


def check_failure(tutti, library):
    """An operator that raises fails the group on all ranks; the with-statement says why."""
    script = (f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\nimport array, tutti\n"
              "def refuse(target, incoming):\n    raise RuntimeError('no')\n"
              "with tutti.connect() as group:\n    group.all_reduce(array.array('f', [1]), tutti.Operator('refuses', refuse))\n")
    result = run(tutti, library, "-c", script)
    expect(result.returncode == 1, "an operator's error is lost:", result.stdout, result.stderr)
    expect(re.search(r"TuttiError: tutti_all_reduce: .*the operator 'refuses' threw: it returned 1", result.stderr), result.stderr)


def check_dropped(tutti, library):
    """Whatever started and was dropped has no other owner than the wrapper."""
    script = (f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\nimport array, tutti\n"
              "new = lambda count=100_000: array.array('d', [1.0] * count)\n"
              "def add(target, incoming):\n    target[0] += incoming[0]\n"
              "group = tutti.connect(timeout=60)\nright, left = (group.rank + 1) % 3, (group.rank + 2) % 3\n"
              "for _ in range(50):\n    group.all_reduce_async(new())\n    group.irecv(new(), left)\n    group.isend(new(), right)\n"
              "    group.all_reduce_async(new(1), tutti.Operator('add', add))\n"
              "group.irecv(new(), left, tag=9)\n"  # is never sent: the group's end ends it
              "group.barrier()\nif len(sys.argv) > 1:\n    group.shutdown()\n")
    for arguments in ([], ["shutdown"]):
        result = run(tutti, library, "-c", script, *arguments)
        expect(result.returncode == 0, "dropped works:", arguments, result.stdout, result.stderr)


def check_exception(tutti, library):
    """The other ranks are told which exception ended one, in a with-statement and without."""
    begin = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\nimport tutti\n"
    body = "if group.rank == 1:\n        raise ValueError('bad sample')\n    group.barrier()\n"
    for script in ("with tutti.connect() as group:\n    " + body,
                   "group = tutti.connect()\nif True:\n    " + body,
                   "def work():\n    group = tutti.connect()\n    " + body + "work()\n"):
        result = run(tutti, library, "-c", begin + script)
        told = re.search(r"TuttiError: .*ValueError: bad sample", result.stderr)
        expect(result.returncode == 1 and told, "what ended rank 1 is not told:", script, result.stdout, result.stderr)


def main():
    tutti, library, mode = sys.argv[1:]
    if mode == "numpy":
        try:
            import numpy  # pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            print(f"skipped: {sys.executable} has no numpy")
            return 77
        check_example(tutti, library, "numpy.float32", hide=False)
        return 0
    check_example(tutti, library, "array.array", hide=True)
    result = run(tutti, library, __file__, "rank")
    expect(result.returncode == 0, result.stdout, result.stderr)
    expect(sorted(result.stdout.split("\n"))[1:] == [f"rank {r}: all well" for r in range(3)], result.stdout)
    check_failure(tutti, library)
    check_dropped(tutti, library)
    check_exception(tutti, library)
    return 0


if __name__ == "__main__":
    sys.exit(rank() if sys.argv[1:] == ["rank"] else main())
