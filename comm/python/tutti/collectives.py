"""The collectives of a Group.

All ranks of a group call the same ones in the same order, with the same counts, types, operators and roots; who differs gets a
TuttiError named TUTTI_MISMATCH with both sides' values. A call returns when this rank is done; each has a twin, NAME_async, which
starts the operation and returns a Work, so that it goes on while this rank computes. Inputs are never written.

`input` and `output` are buffers (buffers.py) of one dtype. `count` below is the number of elements of one rank's block; where
a buffer holds the blocks of all ranks, one behind the other in rank order, it has `world_size * count`. Sizes are checked
before anything is sent: ValueError. What a rank need not give, because only the root's is looked at, may be None.
"""

from __future__ import annotations

import ctypes
from typing import Optional, Sequence

from ._library import DTYPES, SUM
from .buffers import Array, Buffer
from .work import Issuer, Plan, Reduction, Work, number_of


class Collectives(Issuer):
    """Every method is collective. See the module's text; errors: TypeError, BufferError and ValueError for a buffer, TuttiError."""

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        self._run("barrier", ((), ()))

    def barrier_async(self) -> Work:
        """Starts barrier()."""
        return self._start("barrier_async", ((), ()))

    def broadcast(self, data: Buffer, root: int = 0, dtype: Optional[str] = None) -> None:
        """Root's `data` overwrites that of the others."""
        self._run("broadcast", self._broadcast(data, root, dtype))

    def broadcast_async(self, data: Buffer, root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts broadcast()."""
        return self._start("broadcast_async", self._broadcast(data, root, dtype))

    def all_reduce(self, data: Buffer, op: Reduction = SUM, dtype: Optional[str] = None) -> None:
        """In place: afterwards `data` is the reduction of all ranks' data, the same bits on all of them."""
        self._run("all_reduce", self._all_reduce(data, op, dtype))

    def all_reduce_async(self, data: Buffer, op: Reduction = SUM, dtype: Optional[str] = None) -> Work:
        """Starts all_reduce()."""
        return self._start("all_reduce_async", self._all_reduce(data, op, dtype))

    def all_reduce_rounded(self, sums: Buffer, rounded: Buffer) -> None:
        """`rounded` (float32) becomes the sum of all ranks' `sums` (float64, as many), rounded once, at the end. `sums` is
        unspecified afterwards."""
        self._run("all_reduce_rounded", self._all_reduce_rounded(sums, rounded))

    def all_reduce_rounded_async(self, sums: Buffer, rounded: Buffer) -> Work:
        """Starts all_reduce_rounded()."""
        return self._start("all_reduce_rounded_async", self._all_reduce_rounded(sums, rounded))

    def reduce(self, input: Buffer, output: Buffer = None, op: Reduction = SUM, root: int = 0, dtype: Optional[str] = None) -> None:
        """Root's `output` (count) becomes the reduction of all inputs (count); it may be the input itself."""
        self._run("reduce", self._reduce(input, output, op, root, dtype))

    def reduce_async(self, input: Buffer, output: Buffer = None, op: Reduction = SUM, root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts reduce()."""
        return self._start("reduce_async", self._reduce(input, output, op, root, dtype))

    def gather(self, input: Buffer, output: Buffer = None, root: int = 0, dtype: Optional[str] = None) -> None:
        """Root's `output` (world_size * count) receives all inputs (count), in rank order."""
        self._run("gather", self._gather(input, output, root, dtype))

    def gather_async(self, input: Buffer, output: Buffer = None, root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts gather()."""
        return self._start("gather_async", self._gather(input, output, root, dtype))

    def all_gather(self, input: Buffer, output: Buffer, dtype: Optional[str] = None) -> None:
        """Each `output` (world_size * count) receives all inputs (count), in rank order. `input` may be this rank's block of it."""
        self._run("all_gather", self._blocks("all_gather", input, 1, output, self.world_size, dtype))

    def all_gather_async(self, input: Buffer, output: Buffer, dtype: Optional[str] = None) -> Work:
        """Starts all_gather()."""
        return self._start("all_gather_async", self._blocks("all_gather", input, 1, output, self.world_size, dtype))

    def scatter(self, input: Buffer, output: Buffer, root: int = 0, dtype: Optional[str] = None) -> None:
        """Block r of root's `input` (world_size * count) goes to rank r's `output` (count)."""
        self._run("scatter", self._scatter(input, output, root, dtype))

    def scatter_async(self, input: Buffer, output: Buffer, root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts scatter()."""
        return self._start("scatter_async", self._scatter(input, output, root, dtype))

    def reduce_scatter(self, input: Buffer, output: Buffer, op: Reduction = SUM, dtype: Optional[str] = None) -> None:
        """Rank r's `output` (count) becomes the reduction of block r of all inputs (world_size * count). It may be this rank's
        block of `input`; else they do not overlap."""
        self._run("reduce_scatter", self._reduce_scatter(input, output, op, dtype))

    def reduce_scatter_async(self, input: Buffer, output: Buffer, op: Reduction = SUM, dtype: Optional[str] = None) -> Work:
        """Starts reduce_scatter()."""
        return self._start("reduce_scatter_async", self._reduce_scatter(input, output, op, dtype))

    def all_to_all(self, input: Buffer, output: Buffer, dtype: Optional[str] = None) -> None:
        """Block j of rank i's `input` becomes block i of rank j's `output` (both world_size * count). They do not overlap."""
        self._run("all_to_all", self._blocks("all_to_all", input, self.world_size, output, self.world_size, dtype))

    def all_to_all_async(self, input: Buffer, output: Buffer, dtype: Optional[str] = None) -> Work:
        """Starts all_to_all()."""
        return self._start("all_to_all_async", self._blocks("all_to_all", input, self.world_size, output, self.world_size, dtype))

    # The v-forms: rank r's block has counts[r] elements, 0 or more. `counts` is equal on all ranks. `whole` holds all blocks, one
    # behind the other in rank order: sum(counts) elements. The buffers do not overlap.

    def gather_v(self, block: Buffer, whole: Buffer, counts: Sequence[int], root: int = 0, dtype: Optional[str] = None) -> None:
        """Root's `whole` receives every rank's `block`."""
        self._run("gather_v", self._gather_v(block, whole, counts, root, dtype))

    def gather_v_async(self, block: Buffer, whole: Buffer, counts: Sequence[int], root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts gather_v()."""
        return self._start("gather_v_async", self._gather_v(block, whole, counts, root, dtype))

    def scatter_v(self, whole: Buffer, block: Buffer, counts: Sequence[int], root: int = 0, dtype: Optional[str] = None) -> None:
        """Every rank's `block` comes from root's `whole`."""
        self._run("scatter_v", self._scatter_v(whole, block, counts, root, dtype))

    def scatter_v_async(self, whole: Buffer, block: Buffer, counts: Sequence[int], root: int = 0, dtype: Optional[str] = None) -> Work:
        """Starts scatter_v()."""
        return self._start("scatter_v_async", self._scatter_v(whole, block, counts, root, dtype))

    def all_gather_v(self, block: Buffer, whole: Buffer, counts: Sequence[int], dtype: Optional[str] = None) -> None:
        """Every rank's `whole` receives every rank's `block`."""
        self._run("all_gather_v", self._all_gather_v(block, whole, counts, dtype))

    def all_gather_v_async(self, block: Buffer, whole: Buffer, counts: Sequence[int], dtype: Optional[str] = None) -> Work:
        """Starts all_gather_v()."""
        return self._start("all_gather_v_async", self._all_gather_v(block, whole, counts, dtype))

    def reduce_scatter_v(self, whole: Buffer, block: Buffer, counts: Sequence[int], op: Reduction = SUM,
                         dtype: Optional[str] = None) -> None:
        """Rank r's `block` becomes the reduction of block r of all ranks' `whole`."""
        self._run("reduce_scatter_v", self._reduce_scatter_v(whole, block, counts, op, dtype))

    def reduce_scatter_v_async(self, whole: Buffer, block: Buffer, counts: Sequence[int], op: Reduction = SUM,
                               dtype: Optional[str] = None) -> Work:
        """Starts reduce_scatter_v()."""
        return self._start("reduce_scatter_v_async", self._reduce_scatter_v(whole, block, counts, op, dtype))

    def all_to_all_v(self, input: Buffer, send_counts: Sequence[int], output: Buffer, recv_counts: Sequence[int],
                     dtype: Optional[str] = None) -> None:
        """`input` holds send_counts[j] elements for rank j, in rank order; `output` receives recv_counts[i] from rank i. These
        counts are this rank's own."""
        self._run("all_to_all_v", self._all_to_all_v(input, send_counts, output, recv_counts, dtype))

    def all_to_all_v_async(self, input: Buffer, send_counts: Sequence[int], output: Buffer, recv_counts: Sequence[int],
                           dtype: Optional[str] = None) -> Work:
        """Starts all_to_all_v()."""
        return self._start("all_to_all_v_async", self._all_to_all_v(input, send_counts, output, recv_counts, dtype))

    # What both forms of a collective are called with.

    def _broadcast(self, data: Buffer, root: int, dtype: Optional[str]) -> Plan:
        a = Array(data, self.rank != root, dtype, "broadcast", "data")
        return (a.address, a.count, a.dtype, root), (a,)

    def _all_reduce(self, data: Buffer, op: Reduction, dtype: Optional[str]) -> Plan:
        a = Array(data, True, dtype, "all_reduce", "data")
        return (a.address, a.count, a.dtype, number_of(op)), (a, op)

    def _all_reduce_rounded(self, sums: Buffer, rounded: Buffer) -> Plan:
        a, o = Array(sums, True, None, "all_reduce_rounded", "sums"), Array(rounded, True, None, "all_reduce_rounded", "rounded")
        _expect_dtype(a, "float64")
        _expect_dtype(o, "float32")
        _expect(o, a.count, "as many as sums has")
        return (a.address, o.address, a.count), (a, o)

    def _reduce(self, input: Buffer, output: Buffer, op: Reduction, root: int, dtype: Optional[str]) -> Plan:
        arguments, keeps = self._blocks("reduce", input, 1, output, 1, dtype, writes=self.rank == root)
        return (*arguments, number_of(op), root), (*keeps, op)

    def _gather(self, input: Buffer, output: Buffer, root: int, dtype: Optional[str]) -> Plan:
        arguments, keeps = self._blocks("gather", input, 1, output, self.world_size, dtype, writes=self.rank == root)
        return (*arguments, root), keeps

    def _scatter(self, input: Buffer, output: Buffer, root: int, dtype: Optional[str]) -> Plan:
        arguments, keeps = self._blocks("scatter", input, self.world_size, output, 1, dtype, reads=self.rank == root)
        return (*arguments, root), keeps

    def _reduce_scatter(self, input: Buffer, output: Buffer, op: Reduction, dtype: Optional[str]) -> Plan:
        arguments, keeps = self._blocks("reduce_scatter", input, self.world_size, output, 1, dtype)
        return (*arguments, number_of(op)), (*keeps, op)

    def _blocks(self, operation: str, input: Buffer, inputs: int, output: Buffer, outputs: int, dtype: Optional[str], reads: bool = True,
                writes: bool = True) -> Plan:
        """`input` has `inputs` blocks, and `output` `outputs`, of one count and dtype; this rank's are looked at if it reads or writes."""
        if not reads:  # which only scatter does without, whose output is one block
            o = Array(output, True, dtype, operation, "output")
            return (None, o.address, o.count, o.dtype), (o,)
        a = Array(input, False, dtype, operation, "input")
        count = a.count // inputs
        if count * inputs != a.count:
            a.refuse(ValueError, f"has {a.count} elements, which is no multiple of the {inputs} ranks")
        if not writes:
            return (a.address, None, count, a.dtype), (a,)
        o = Array(output, True, dtype, operation, "output")
        _expect_dtype(o, DTYPES[a.dtype])
        _expect(o, outputs * count, f"{outputs} x {count}")
        return (a.address, o.address, count, a.dtype), (a, o)

    def _gather_v(self, block: Buffer, whole: Buffer, counts: Sequence[int], root: int, dtype: Optional[str]) -> Plan:
        arguments, keeps = self._v_blocks("gather_v", block, False, whole, self.rank == root, counts, dtype)
        return (*arguments, root), keeps

    def _scatter_v(self, whole: Buffer, block: Buffer, counts: Sequence[int], root: int, dtype: Optional[str]) -> Plan:
        (b, w, *others), keeps = self._v_blocks("scatter_v", block, True, whole, self.rank == root, counts, dtype)
        return (w, b, *others, root), keeps

    def _all_gather_v(self, block: Buffer, whole: Buffer, counts: Sequence[int], dtype: Optional[str]) -> Plan:
        return self._v_blocks("all_gather_v", block, False, whole, True, counts, dtype)

    def _reduce_scatter_v(self, whole: Buffer, block: Buffer, counts: Sequence[int], op: Reduction, dtype: Optional[str]) -> Plan:
        (b, w, *others), keeps = self._v_blocks("reduce_scatter_v", block, True, whole, True, counts, dtype)
        return (w, b, *others, number_of(op)), (*keeps, op)

    def _v_blocks(self, operation: str, block: Buffer, writes_block: bool, whole: Buffer, uses_whole: bool, counts: Sequence[int],
                  dtype: Optional[str]) -> Plan:
        """Block, whole (None where this rank's is not looked at), counts and dtype; of block and whole one is written."""
        numbers = self._counts(operation, "counts", counts)
        b = Array(block, writes_block, dtype, operation, "block")
        _expect(b, numbers[self.rank], f"counts[{self.rank}]")
        w = Array(whole, not writes_block, dtype, operation, "whole") if uses_whole else None
        if w is not None:
            _expect_dtype(w, DTYPES[b.dtype])
            _expect(w, sum(numbers), "the sum of counts")
        return (b.address, w and w.address, numbers, b.dtype), (b, w)

    def _all_to_all_v(self, input: Buffer, send_counts: Sequence[int], output: Buffer, recv_counts: Sequence[int],
                      dtype: Optional[str]) -> Plan:
        sent = self._counts("all_to_all_v", "send_counts", send_counts)
        received = self._counts("all_to_all_v", "recv_counts", recv_counts)
        a, o = Array(input, False, dtype, "all_to_all_v", "input"), Array(output, True, dtype, "all_to_all_v", "output")
        _expect(a, sum(sent), "the sum of send_counts")
        _expect_dtype(o, DTYPES[a.dtype])
        _expect(o, sum(received), "the sum of recv_counts")
        return (a.address, sent, o.address, received, a.dtype), (a, o)

    def _counts(self, operation: str, argument: str, counts: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
        numbers = [int(count) for count in counts]
        if len(numbers) != self.world_size or min(numbers) < 0:
            raise ValueError(f"{operation}: {argument} is {numbers}, but must have one number, 0 or more, for each of the "
                             f"{self.world_size} ranks")
        return (ctypes.c_size_t * len(numbers))(*numbers)


def _expect(array: Array, count: int, which: str) -> None:
    """The library knows addresses, but not where memory ends."""
    if array.count != count:
        array.refuse(ValueError, f"has {array.count} elements, but {count} are needed ({which})")


def _expect_dtype(array: Array, name: str) -> None:
    if DTYPES[array.dtype] != name:
        array.refuse(TypeError, f"has elements of {DTYPES[array.dtype]}, but {name} is needed here")
