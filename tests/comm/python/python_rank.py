"""One of three ranks that call everything the package tutti offers: python_rank.py plain | numpy | torch"""

import array
import ctypes
import sys
import threading

import tutti
import tutti.objects

RANKS = 3


def expect(good, *what):
    if not good:
        raise AssertionError(" ".join(map(str, what)))


def refused(error, text, function, *arguments, **named):
    """The call raises this kind of error, with this text, and sends nothing."""
    try:
        function(*arguments, **named)
    except error as raised:
        expect(text in str(raised), f"{text!r} is not in {str(raised)!r}")
        return raised
    raise AssertionError(f"{error.__name__} ({text}) was not raised")


def forms(group, name):
    """The collective, and its asynchronous twin waited for."""
    def asynchronous(*arguments, **named):
        work = getattr(group, name + "_async")(*arguments, **named)
        work.wait()
        expect(work.is_completed() and work.exception() is None, name, "is not complete")
    return getattr(group, name), asynchronous


def collectives(group, me):
    for call in forms(group, "barrier"):
        call()
    for call in forms(group, "all_reduce"):
        call(values := array.array("q", [me, 10 * me]), tutti.MAX)
        expect(list(values) == [2, 20], values)
        call(bits := bytearray(b"\x80\x3f\0\0"), dtype="bfloat16")  # 1 + 1 + 1, of a type that Python has not
        expect(bytes(bits) == b"\x40\x40\0\0", bits.hex())
        call(values := memoryview(bytearray([me])), op=tutti.BOR)
        expect(values[0] == 3, values[0])
        call(array.array("d"))
    for call in forms(group, "all_reduce_rounded"):
        call(array.array("d", [me, 0.5]), rounded := array.array("f", [9, 9]))
        expect(list(rounded) == [3, 1.5], rounded)
    for call in forms(group, "broadcast"):
        call(values := array.array("d", [me]), root=1)
        expect(values[0] == 1, values)
        call(b"root" if me == 2 else (text := bytearray(4)), 2)  # what the root sends may be read-only
        expect(me == 2 or text == b"root", "broadcast of bytes")
    for call in forms(group, "reduce"):
        call(array.array("b", [me]), total := array.array("b", [9]), root=2)
        expect(total[0] == (3 if me == 2 else 9), total)
        call(array.array("b", [me]), total if me == 0 else None, tutti.PROD)
        expect(total[0] == (9 if me == 1 else 3 if me == 2 else 0), total)
    for call in forms(group, "gather"):
        call(array.array("f", [me]), whole := array.array("f", [9] * 3), root=2)
        expect(list(whole) == ([0, 1, 2] if me == 2 else [9] * 3), whole)
    for call in forms(group, "all_gather"):
        call(array.array("i", [me, -me]), blocks := array.array("i", [0] * 6))
        expect(list(blocks) == [0, 0, 1, -1, 2, -2], blocks)
    for call in forms(group, "scatter"):
        call(array.array("f", range(3)) if me == 2 else None, back := array.array("f", [7]), root=2)
        expect(back[0] == me, back)
    for call in forms(group, "reduce_scatter"):
        call(array.array("i", range(6)), own := array.array("i", [0, 0]))
        expect(list(own) == [6 * me, 6 * me + 3], own)
    for call in forms(group, "all_to_all"):
        call(bytes([10 * me, 10 * me + 1, 10 * me + 2]), got := bytearray(3))
        expect(list(got) == [me, 10 + me, 20 + me], got)


def v_forms(group, me):
    counts = [2, 0, 1]
    mine, all_of_them = [[1.0, 2.0], [], [3.0]][me], [1.0, 2.0, 3.0]
    for call in forms(group, "gather_v"):
        call(array.array("f", mine), whole := array.array("f", [0] * 3), counts, root=1)
        expect(list(whole) == (all_of_them if me == 1 else [0] * 3), whole)
    for call in forms(group, "all_gather_v"):
        call(array.array("f", mine), whole := array.array("f", [0] * 3), tuple(counts))
        expect(list(whole) == all_of_them, whole)
    for call in forms(group, "scatter_v"):
        call(array.array("f", all_of_them) if me == 0 else None, block := array.array("f", [0] * counts[me]), counts)
        expect(list(block) == mine, block)
    for call in forms(group, "reduce_scatter_v"):
        call(array.array("f", all_of_them), block := array.array("f", [0] * counts[me]), counts, tutti.SUM)
        expect(list(block) == [RANKS * value for value in mine], block)
    for call in forms(group, "all_to_all_v"):  # rank r sends j elements to rank j
        call(bytes([10 * me + 1, 10 * me + 2, 10 * me + 2]), [0, 1, 2], got := bytearray(RANKS * me), [me] * RANKS)
        expect(list(got) == [10 * sender + me for sender in range(RANKS) for _ in range(me)], got)
    refused(ValueError, "counts is [1, 2], but must have one number", group.all_gather_v, b"", bytearray(3), [1, 2])
    refused(ValueError, "one number, 0 or more", group.all_gather_v, b"", bytearray(3), [1, -1, 3])
    refused(ValueError, f"block (bytes) has 9 elements, but {counts[me]} are needed (counts[{me}])",
            group.all_gather_v, bytes(9), bytearray(3), counts)
    refused(ValueError, "whole (bytearray) has 4 elements, but 3 are needed", group.all_gather_v, bytes(counts[me]), bytearray(4), counts)


def messages(group, me):
    following, previous = (me + 1) % RANKS, (me - 1) % RANKS
    if me == 0:
        group.send(b"hello", 1, tag=3)
        group.isend(array.array("d", [2.5]), 2).wait()
    if me == 1:
        expect(group.recv(text := bytearray(5), tag=3) == 0 and text == b"hello", text)
    if me == 2:
        work = group.irecv(value := array.array("d", [0]))
        work.wait()
        expect(work.source() == 0 and value[0] == 2.5, value)
    sender = group.sendrecv(array.array("i", [me] * 50_000), following, got := array.array("i", [9] * 50_000), previous, 7, 7)
    expect(sender == previous and got[49_999] == previous, sender, got[49_999])
    refused(TypeError, "incoming (array.array) has elements of float32, but outgoing has int32",
            group.sendrecv, array.array("i"), following, array.array("f"))
    unheard = group.irecv(bytearray(1), previous, tag=99)
    expect(not unheard.wait_for(0) and not unheard.is_completed() and unheard.exception() is None, "a message nobody sent")
    group.barrier()
    waits = group.irecv(other := bytearray(1), previous, tag=98)  # a Work may be waited for by another thread
    thread = threading.Thread(target=waits.wait)
    thread.start()
    group.send(bytes([me]), following, tag=98)
    thread.join()
    expect(other[0] == previous, other)
    group.send(b"x", following, tag=99)
    unheard.wait()


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("not to be pickled")


def objects(group, me):
    thing = {"rank": me, "text": "é" * 1000 * me}
    expect(group.broadcast_object(thing if me == 1 else None, root=1)["rank"] == 1, "broadcast_object")
    everything = group.all_gather_object(thing)
    expect([one["rank"] for one in everything] == [0, 1, 2] and everything[me] == thing, everything)
    expect(group.gather_object([me] * me, root=2) == ([[], [1], [2, 2]] if me == 2 else None), "gather_object")
    expect(group.scatter_object(["a", None, ("c", 3)] if me == 0 else None) == ["a", None, ("c", 3)][me], "scatter_object")
    if me == 0:
        group.send_object({"big": bytes(200_000)}, 1, tag=5)
        group.send_object("small", 1, tag=5)
        refused(RuntimeError, "not to be pickled", group.send_object, Unpicklable(), 1)
    if me == 1:
        expect(len(group.recv_object(tag=5)["big"]) == 200_000 and group.recv_object(0, tag=5) == "small", "recv_object")
    # What one rank cannot pickle is an error on all of them, and the group goes on.
    for bad, call in ((1, lambda: group.all_gather_object(Unpicklable() if me == 1 else me)),
                      (1, lambda: group.gather_object(Unpicklable() if me == 1 else me)),
                      (2, lambda: group.broadcast_object(Unpicklable(), root=2)),
                      (0, lambda: group.scatter_object([1, Unpicklable(), 3]))):
        refused(RuntimeError, "not to be pickled" if me == bad else f"rank {bad} has no object to send that can be pickled", call)
    wrong = (ValueError, "objects has 2 of them, but needs one for each of the 3 ranks")
    refused(*(wrong if me == 0 else (RuntimeError, "rank 0 has no object")), group.scatter_object, [1, 2])
    tutti.objects.LARGEST, allowed = 100, tutti.objects.LARGEST
    refused(ValueError, "all_gather_object: rank 2's object has", group.all_gather_object, bytes(1000 * (me == 2)))
    tutti.objects.LARGEST = allowed


def operators(group, me):
    def keep_longer(target, incoming):
        for i, value in enumerate(incoming):
            if abs(value) > abs(target[i]):
                target[i] = value

    longer = tutti.Operator("longer", keep_longer)
    for call in forms(group, "all_reduce"):
        call(values := array.array("i", [me - 2, 1]), longer)
        expect(values[0] == -2, values)
    group.reduce_scatter(array.array("d", [me, -me, 1]), own := array.array("d", [0]), longer)
    expect(own[0] == [2, -2, 1][me], own)
    longer.close()
    refused(tutti.TuttiError, "operator", group.all_reduce, array.array("i", [1]), 1234)


def groups(group, me):
    half = group.split(me % 2, key=-me)
    expect(half.world_size == (2 if me != 1 else 1) and half.world_ranks() == ([1] if me == 1 else [2, 0]), half)
    half.shutdown()
    expect(group.split(-1 if me == 0 else 0) is None or me != 0, "a negative color got a group")
    if me != 1:
        with group.subgroup([2, 0]) as pair:
            expect(pair.rank == (0 if me == 2 else 1), pair)
            pair.all_reduce(values := array.array("i", [me]))
            expect(values[0] == 2, values)
    expect(group.name and group.transport == "shm" and group.timeout == 60 and f"rank {me} of 3" in repr(group), repr(group))
    expect("split" in group.recent_operations() or "barrier" in group.recent_operations(), group.recent_operations())
    world = tutti.World()
    expect((world.rank, world.world_size, world.local_rank, world.local_world_size) == (me, 3, me, 3), vars(world))
    expect("RANK" in world.detected_from, world.detected_from)
    refused(tutti.TuttiError, 'RANK is "7"', tutti.World, rank=7, world_size=3)
    second = tutti.connect(tutti.World(), name="second", timeout=60, transport="tcp", reproducible=True, segment_bytes=4096)
    second.all_reduce(values := array.array("f", [1.0]))
    expect(second.transport == "tcp" and values[0] == 3, second)
    second.shutdown()
    for text in ("no sign of rank(s) 1, 2 at ", "not all ranks have come again"):
        if me == 0:  # an attempt that the others do not share in leaves nothing that a later one meets
            refused(tutti.TuttiError, text, tutti.connect, name="late", timeout=0.3)
        group.barrier()
        late = tutti.connect(name="late", timeout=30)
        late.barrier()
        late.shutdown()


def memory(group, me):
    for count, dtype in ((1000, "float32"), (3, "bfloat16"), (0, "int64")):
        values = group.allocate(count, dtype)
        expect(len(values) == count and not any(values), dtype, values)
    values = group.allocate(1000, "int32")
    for call in forms(group, "all_reduce"):
        values[999] = me
        call(values)
        expect(values[999] == 3, values[999])
    group.all_reduce_async(group.allocate(1000, "float64"))  # lives until it is complete
    refused(ValueError, "dtype 'float3' is none of float32, ", group.allocate, 1, "float3")


def store(group, me):
    keys = group.store(timeout=60)
    if me == 0:
        keys.set("key", b"x" * 1000)
        keys.set("empty", bytearray())
    expect(keys.get("key") == b"x" * 1000 and keys.get("empty") == b"", "store.get")
    keys.wait(["key", "empty"])
    expect(1 <= keys.add("number", 1) <= 3, "store.add")
    refused(TypeError, "bytes-like", keys.set, "key", "text")
    group.barrier()
    if me == 0:
        expect(keys.check("key") and not keys.check("none"), "store.check")
        expect(keys.delete("key") and not keys.delete("key") and not keys.check("key"), "store.delete")
        expect(refused(tutti.TuttiError, "none", group.store(timeout=0.001).get, "none").name == "TUTTI_TIMEOUT", "store.get")


def refusals(group, me):
    ints = memoryview(array.array("i", range(6)))
    for wrong, error, text in (((ctypes.c_wchar * 3)(), TypeError, "has elements of format 'u' (4 bytes), none of float32"),
                               ("text", TypeError, "all_reduce: data (str) is no buffer"),
                               (b"read only", BufferError, "all_reduce: data (bytes) is read-only, but is written to"),
                               (ints[::2], BufferError, "in one piece"), ([1, 2], TypeError, "is no buffer"),
                               (None, TypeError, "is no buffer")):
        refused(error, text, group.all_reduce, wrong)
        refused(error, text, group.all_reduce_async, wrong)
    refused(ValueError, "dtype 'float3' is none of", group.all_reduce, bytearray(4), dtype="float3")
    refused(TypeError, "cannot be read as float64: the sizes differ", group.all_reduce, array.array("i", [1, 2]), dtype="float64")
    refused(ValueError, "has 3 bytes, which is no multiple of the 4 of a float32", group.all_reduce, bytearray(3), dtype="float32")
    refused(ValueError, "output (array.array) has 1 elements, but 3 are needed (3 x 1)",
            group.all_gather, array.array("i", [1]), array.array("i", [0]))
    refused(ValueError, "input (bytes) has 4 elements, which is no multiple of the 3 ranks", group.all_to_all, bytes(4), bytearray(4))
    refused(TypeError, "output (array.array) has elements of float32, but int32 is needed", group.all_gather,
            array.array("i", [1]), array.array("f", [0] * 3))
    refused(BufferError, "output (bytes)", group.all_gather, b"a", b"abc")
    refused(TypeError, "output (NoneType)", group.reduce, b"a", None, root=me)
    refused(TypeError, "float64 is needed", group.all_reduce_rounded, array.array("f", [1]), array.array("f", [1]))
    refused(tutti.TuttiError, "root 5 is no rank", group.broadcast, bytearray(1), root=5)
    refused(TypeError, "does not fit 32 bits", group.broadcast, bytearray(1), root=(1 << 32) + 1)
    refused(TypeError, "does not fit 32 bits", group.send, b"", me, tag=1 << 31)
    refused(TypeError, "does not fit 32 bits", tutti.World, rank=1 << 32)
    refused(TypeError, "does not fit 64 bits", group.store().add, "key", 1 << 64)
    refused(TypeError, "tutti_all_reduce: ", group.all_reduce, bytearray(4), op="sum")
    refused(ValueError, "holds a NUL", group.store().set, "a\0b", b"")
    refused(ValueError, "holds a NUL", tutti.Operator, "a\0b", max)
    error = refused(tutti.TuttiError, "rank", group.send, b"", 17)
    expect((error.code, error.name, error.text) == (1, "TUTTI_INVALID_ARGUMENT", str(error)), error)
    expect(group.error() == "", group.error())


def plain(group, me):
    collectives(group, me)
    v_forms(group, me)
    messages(group, me)
    objects(group, me)
    operators(group, me)
    groups(group, me)
    memory(group, me)
    store(group, me)
    refusals(group, me)


class OnlyDlpack:
    """An array that shows itself by DLPack alone."""

    def __init__(self, array_, device=None):
        self._array, self._device = array_, device

    def __dlpack__(self, **named):
        return self._array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self._device or self._array.__dlpack_device__()


def dlpack(group, me, values, transposed):
    """`values` is 2 x 3 ints, here full of the rank."""
    group.all_reduce(OnlyDlpack(values))
    expect(int(values[1, 2]) == 3, values)
    refused(BufferError, "in one piece", group.all_reduce, OnlyDlpack(transposed))
    refused(TypeError, "DLPack's type 2", group.all_reduce, OnlyDlpack(values, (2, 0)))
    group.all_gather(OnlyDlpack(values[1:, 2:]), got := array.array("i", [0] * 3))
    expect(list(got) == [3] * 3, got, me)


def of_numpy(group, me):
    import numpy  # pylint: disable=import-outside-toplevel

    for name in ("float32", "float64", "int32", "int64", "uint8", "float16", "int8", "uint16", "uint64"):
        group.all_reduce(values := numpy.full((2, 3), me, name))
        expect(values.dtype == name and (values == 3).all(), values)
    group.all_reduce(flags := numpy.array([me == 1, False]), tutti.BOR)
    expect(flags.tolist() == [True, False], flags)
    group.all_gather(numpy.full(2, me, "f4"), whole := numpy.zeros((3, 2), "f4"))
    expect(whole.tolist() == [[0, 0], [1, 1], [2, 2]], whole)
    group.all_reduce(values := numpy.asarray(group.allocate(4)))
    expect(values.dtype == "float32" and not values.any(), values)
    square = numpy.full((2, 3), me, "i4")
    for wrong in (square.T, square[:, :2]):
        refused(BufferError, "all_reduce: data (numpy.ndarray) does not lie in one piece", group.all_reduce, wrong)
    for dtype in ("c8", ">f4", "M8[s]", "f4,i4", "U1", "O"):
        refused(TypeError, "all_reduce: data (numpy.ndarray)", group.all_reduce, numpy.zeros(2, dtype))
    fixed = numpy.zeros(2)
    fixed.flags.writeable = False
    refused(BufferError, "read-only", group.all_reduce, fixed)
    if hasattr(square, "__dlpack__"):
        dlpack(group, me, square, numpy.zeros((2, 3), "i4").T)


def of_torch(group, me):
    import torch  # pylint: disable=import-outside-toplevel

    for name in ("float32", "float64", "int32", "int64", "uint8", "float16", "bfloat16", "int8"):
        group.all_reduce(values := torch.full((2, 3), me, dtype=getattr(torch, name)))
        expect(bool((values == 3).all()), values)
    parameter = torch.nn.Parameter(torch.full((4,), float(me)))
    for call in forms(group, "broadcast"):
        call(parameter, 2)
        expect(parameter.tolist() == [2.0] * 4, parameter)
    group.all_gather(torch.tensor([me]), whole := torch.zeros(3, 1, dtype=torch.int64))
    expect(whole.tolist() == [[0], [1], [2]], whole)
    group.all_reduce(torch.frombuffer(group.allocate(4), dtype=torch.float32))
    square = torch.full((2, 3), me, dtype=torch.int32)
    for wrong, error, text in ((square.T, BufferError, "one piece"), (square.to("meta"), TypeError, "is on meta"),
                               (torch.zeros(2, dtype=torch.complex64), TypeError, "complex64"),
                               (torch.zeros(2).to_sparse(), BufferError, "one piece")):
        refused(error, text, group.all_reduce, wrong)
    dlpack(group, me, square, torch.zeros((2, 3), dtype=torch.int32).T)


def main():
    check = {"plain": plain, "numpy": of_numpy, "torch": of_torch}[sys.argv[1]]
    with tutti.connect(timeout=60) as group:
        expect(group.world_size == RANKS, "world size", group.world_size)
        check(group, group.rank)
        rank = group.rank
    error = refused(tutti.TuttiError, "", group.barrier)  # it has been left
    expect(error.name == "TUTTI_INVALID_ARGUMENT" and error.code == 1, error.name)
    print(f"rank {rank}: all well")


if __name__ == "__main__":
    main()
