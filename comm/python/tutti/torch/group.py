"""What PyTorch's distributed package calls: every operation of c10d's CPU users, in terms of libtutti_c's.

Group is the process group that programs get; Backend stands for it where PyTorch asks for one by device. Both take
c10d's arguments: lists of one tensor, options with rootRank, reduceOp, timeout and asyncOp.
Thread-safety: any thread may call anything.
"""

from __future__ import annotations

import ctypes
from typing import List, Optional

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .._library import ANY_SOURCE
from .communicator import Communicator
from .sparse import all_reduce_sparse
from .tensors import Blocks, one_of, operator_of, premultiplied, premultiply, view
from .work import Works


def _sizes(counts):
    return (ctypes.c_size_t * len(counts))(*counts)


class Operations:
    """The operations, on self.communicator."""

    communicator: Communicator

    # --- One tensor on each rank

    def broadcast(self, tensors, opts=None):
        tensor = one_of(tensors)
        root = opts if isinstance(opts, int) else opts.rootRank
        data = view(tensor, receives=root != self.communicator.rank)
        return self.communicator.collective(_known(opts), "broadcast", (data.address, data.count, data.dtype, root), [tensor],
                                            data, data.after)

    def allreduce(self, tensors, opts=None):
        tensor, op = one_of(tensors), _reduction(opts)
        if tensor.layout != torch.strided:
            return all_reduce_sparse(self, tensor, op)
        data = view(tensor, receives=True, reduced=True)
        arguments = (data.address, data.count, data.dtype, operator_of(op, tensor))
        premultiply([data.tensor], op)
        return self.communicator.collective(_known(opts), "all_reduce", arguments, [tensor], data, data.after)

    allreduce_sparse = allreduce

    def reduce(self, tensors, opts=None):
        tensor, op, root = one_of(tensors), opts.reduceOp, opts.rootRank
        is_root = root == self.communicator.rank
        data = view(tensor if is_root else premultiplied(tensor, op), receives=is_root, reduced=True)
        arguments = (data.address, data.address if is_root else None, data.count, data.dtype, operator_of(op, tensor), root)
        if is_root:
            premultiply([data.tensor], op)
        return self.communicator.collective(opts, "reduce", arguments, [tensor], data, data.after)

    # --- A block for or from each rank

    def all_gather_single(self, output, tensor, opts=None):
        whole, block = view(output, receives=True), view(tensor, receives=False)
        _require(whole.count == block.count * self.communicator.size, "all_gather", whole.count,
                 block.count * self.communicator.size)
        return self.communicator.collective(opts, "all_gather", (block.address, whole.address, block.count, _same(block, whole)),
                                            [output], (whole, block), whole.after, [tensor])

    def allgather(self, output_lists, tensors, opts=None):
        tensor, outputs = one_of(tensors), _one_list(output_lists)
        self._require_one_for_each(outputs, "outputs")
        blocks, block = Blocks(outputs, receives=True), view(tensor, receives=False)
        _require(blocks.counts[self.communicator.rank] == block.count, "all_gather", blocks.counts[self.communicator.rank],
                 block.count)
        keeps, dtype = (blocks, block), _same(block, blocks)
        if blocks.are_equal:
            return self.communicator.collective(opts, "all_gather", (block.address, blocks.address, block.count, dtype),
                                                outputs, keeps, blocks.after, [tensor])
        return self.communicator.collective(opts, "all_gather_v",
                                            (block.address, blocks.address, _sizes(blocks.counts), dtype), outputs, keeps,
                                            blocks.after, [tensor])

    def gather(self, output_lists, tensors, opts):
        tensor, root = one_of(tensors), opts.rootRank
        block, blocks = view(tensor, receives=False), None
        outputs = _one_list(output_lists) if root == self.communicator.rank else []
        if root == self.communicator.rank:
            self._require_one_for_each(outputs, "outputs")
            blocks = Blocks(outputs, receives=True)
            _same(block, blocks)
            for count in blocks.counts:
                _require(count == block.count, "gather", count, block.count)
        arguments = (block.address, blocks.address if blocks else None, block.count, block.dtype, root)
        return self.communicator.collective(opts, "gather", arguments, outputs, (block, blocks), blocks.after if blocks else None,
                                            [tensor])

    def scatter(self, outputs, input_lists, opts):
        output, root = one_of(outputs), opts.rootRank
        block, blocks = view(output, receives=True), None
        if root == self.communicator.rank:
            inputs = _one_list(input_lists)
            self._require_one_for_each(inputs, "inputs")
            blocks = Blocks(inputs, receives=False)
            _same(block, blocks)
            for count in blocks.counts:
                _require(count == block.count, "scatter", count, block.count)
        arguments = (blocks.address if blocks else None, block.address, block.count, block.dtype, root)
        return self.communicator.collective(opts, "scatter", arguments, [output], (block, blocks), block.after,
                                            _one_list(input_lists) if blocks else [output])

    def reduce_scatter_single(self, output, tensor, opts=None):
        op = _reduction(opts)
        block = view(output, receives=True, reduced=True)
        whole = view(premultiplied(tensor, op), receives=False, reduced=True)
        _require(whole.count == block.count * self.communicator.size, "reduce_scatter", whole.count,
                 block.count * self.communicator.size)
        arguments = (whole.address, block.address, block.count, _same(block, whole), operator_of(op, tensor))
        return self.communicator.collective(opts, "reduce_scatter", arguments, [output], (block, whole), block.after, [tensor])

    def reduce_scatter(self, outputs, input_lists, opts=None):
        output, inputs, op = one_of(outputs), _one_list(input_lists), _reduction(opts)
        self._require_one_for_each(inputs, "inputs")
        block = view(output, receives=True, reduced=True)
        blocks = Blocks([premultiplied(one, op) for one in inputs], receives=False, reduced=True)
        _require(blocks.counts[self.communicator.rank] == block.count, "reduce_scatter", blocks.counts[self.communicator.rank],
                 block.count)
        arguments = (blocks.address, block.address, _sizes(blocks.counts), _same(block, blocks), operator_of(op, output))
        return self.communicator.collective(opts, "reduce_scatter_v", arguments, [output], (block, blocks), block.after, inputs)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        sent, received = view(tensor, receives=False), view(output, receives=True)
        dtype = _same(sent, received)
        send_counts = self._counts(tensor, sent, input_splits, "input")
        recv_counts = self._counts(output, received, output_splits, "output")
        arguments = (sent.address, _sizes(send_counts), received.address, _sizes(recv_counts), dtype)
        return self.communicator.collective(opts, "all_to_all_v", arguments, [output], (sent, received), received.after,
                                            [tensor])

    def alltoall(self, outputs, inputs, opts=None):
        self._require_one_for_each(outputs, "outputs")
        self._require_one_for_each(inputs, "inputs")
        sent, received = Blocks(inputs, receives=False), Blocks(outputs, receives=True)
        arguments = (sent.address, _sizes(sent.counts), received.address, _sizes(received.counts), _same(sent, received))
        return self.communicator.collective(opts, "all_to_all_v", arguments, outputs, (sent, received), received.after, inputs)

    # --- Lists of operations

    def allreduce_coalesced(self, tensors, opts=None):
        op = _reduction(opts)
        if len({tensor.dtype for tensor in tensors}) != 1:
            return Works([self.allreduce([tensor], opts) for tensor in tensors])
        blocks = Blocks(tensors, receives=True, reduced=True, in_place=True)
        arguments = (blocks.address, sum(blocks.counts), blocks.dtype, operator_of(op, tensors[0]))
        premultiply(blocks.tensors, op)
        return self.communicator.collective(_known(opts), "all_reduce", arguments, list(tensors), blocks, blocks.after)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return Works([self.all_gather_single(output, one, opts) for output, one in zip(outputs, inputs)])

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        """output_lists[r] receives rank r's list of inputs."""
        self._require_one_for_each(output_lists, "output lists")
        outputs = [tensor for one_list in output_lists for tensor in one_list]
        blocks, block = Blocks(outputs, receives=True), Blocks(inputs, receives=False)
        _require(blocks.counts == block.counts * self.communicator.size, "all_gather_coalesced", sum(blocks.counts),
                 sum(block.counts) * self.communicator.size)
        arguments = (block.address, blocks.address, sum(block.counts), _same(block, blocks))
        return self.communicator.collective(opts, "all_gather", arguments, outputs, (blocks, block), blocks.after, list(inputs))

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return Works([self.reduce_scatter_single(output, one, opts) for output, one in zip(outputs, inputs)])

    # --- Messages

    def send(self, tensors, destination, tag=0):
        data = view(one_of(tensors), receives=False)
        return self.communicator.message("isend", "send", (data.address, data.count, data.dtype, destination, tag), tensors, data)

    def recv(self, tensors, source, tag=0, event="recv"):
        data = view(one_of(tensors), receives=True)
        return self.communicator.message("irecv", event, (data.address, data.count, data.dtype, source, tag), tensors, data)

    def recv_anysource(self, tensors, tag=0):
        return self.recv(tensors, ANY_SOURCE, tag, "recvAnySource")

    # --- Barriers and the group's life

    def barrier(self, opts=None):
        return self.communicator.collective(opts, "barrier", (), [])

    def monitored_barrier(self, opts=None, wait_all_ranks=False):
        self.communicator.monitored_barrier(getattr(opts, "timeout", opts), wait_all_ranks)

    def _get_sequence_number_for_group(self) -> int:
        return self.communicator.sequence

    def _set_sequence_number_for_group(self) -> None:
        pass  # it is counted from the beginning, and the library compares it

    def getBackendName(self) -> str:
        return "tutti"  # also where it goes by "gloo": PyTorch casts a group of that name to its own class

    name = getBackendName

    def abort(self) -> None:
        self.communicator.group.abort("the program called abort()")

    def shutdown(self) -> None:
        self.communicator.group.close()

    # Names of PyTorch before 2.15.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _require_one_for_each(self, tensors, what: str) -> None:
        if len(tensors) != self.communicator.size:
            raise ValueError(f"there are {len(tensors)} {what} for {self.communicator.size} ranks")

    def _counts(self, tensor, data, splits: Optional[List[int]], what: str) -> List[int]:
        """The elements for each rank: of `splits` along the first dimension, or equal ones."""
        size = self.communicator.size
        if not splits:
            _require(data.count % size == 0, f"all_to_all of an {what} without splits", data.count, data.count // size * size)
            return [data.count // size] * size
        rows = tensor.size(0) if tensor.dim() else 1
        if len(splits) != size or sum(splits) != rows or min(splits) < 0:
            raise ValueError(f"the splits {list(splits)} of the {what} must be {size}, none negative, and add up to its {rows} rows")
        return [data.count // rows * split if rows else 0 for split in splits]


def _one_list(lists):
    return lists if lists and isinstance(lists[0], torch.Tensor) else one_of(lists)


def _known(opts):
    """Options; not what stands in their place in c10d's short forms."""
    return opts if hasattr(opts, "timeout") else None


def _reduction(opts):
    """Of options, or in place of them."""
    return dist.ReduceOp(dist.ReduceOp.SUM) if opts is None else getattr(opts, "reduceOp", opts)


def _same(one, other) -> int:
    if one.dtype != other.dtype:
        raise ValueError("input and output must be of one type")
    return one.dtype


def _require(holds: bool, what: str, found: int, needed: int) -> None:
    if not holds:
        raise ValueError(f"{what}: a tensor has {found} elements, but {needed} are needed")


#: Whether Python can extend c10d's Backend; it can since PyTorch 2.15.
CAN_EXTEND_BACKEND = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 15)


class Backend(Operations, c10d.Backend):
    """The group as PyTorch's dispatcher knows it; its calls come here where Python is not asked, as those of DTensor."""

    # Without these, c10d's own properties ask the subclass, which is them again.
    supports_coalescing = supports_reconfigure = supports_shrinking = supports_splitting = supports_window = False
    _supports_time_estimate = False

    def __init__(self, communicator: Communicator, options):
        c10d.Backend.__init__(self, communicator.rank, communicator.size)
        self.communicator, self._options = communicator, options

    @property
    def options(self):
        return self._options

    def supports_tensor_alloc(self, device) -> bool:
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size, *, dtype, device) -> torch.Tensor:
        """For fully_shard's set_allocate_memory_from_process_group_for_comm(), and whoever else asks."""
        return self.communicator.allocate(size, dtype)


class Group(Operations, dist.ProcessGroup):
    """The process group. Programs call its methods without a detour, and get its Work objects as they are."""

    def __init__(self, store, backend: Backend):
        dist.ProcessGroup.__init__(self, store, backend.communicator.rank, backend.communicator.size)
        self.communicator = backend.communicator
        kind = dist.Backend.backend_type_map[self.communicator.name]
        self._register_backend(torch.device("cpu"), kind, backend)
        self._set_default_backend(kind)


class OlderGroup(Operations, dist.ProcessGroup):
    """The process group of PyTorch before 2.15: no Backend stands behind it."""

    def __init__(self, communicator: Communicator):
        dist.ProcessGroup.__init__(self, communicator.rank, communicator.size)
        self.communicator, self._group_name = communicator, ""

    @property
    def group_name(self) -> str:
        return self._group_name

    def _set_group_name(self, name: str) -> None:
        self._group_name = name

    def _set_group_desc(self, description: str) -> None:
        pass
