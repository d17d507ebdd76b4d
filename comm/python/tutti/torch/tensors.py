"""PyTorch tensors as the library sees them: address, count, element type. And what the library cannot take, made so that it
can: tensors that are not in one piece, and types that it does not know.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional

import torch
import torch.distributed as dist

from .. import _library

_NUMBER_OF = {getattr(torch, name): number for name, number in _library.NUMBERS.items() if hasattr(torch, name)}

#: Types that are reduced as another one, which holds all of their values.
_REDUCED_AS = {torch.int16: torch.int32}
if hasattr(torch, "uint32"):
    _REDUCED_AS[torch.uint32] = torch.int64

_Kind = dist.ReduceOp.RedOpType
_OPERATOR_OF = {_Kind.SUM: _library.SUM, _Kind.AVG: _library.AVG, _Kind.PRODUCT: _library.PROD, _Kind.MIN: _library.MIN,
                _Kind.MAX: _library.MAX, _Kind.BAND: _library.BAND, _Kind.BOR: _library.BOR, _Kind.BXOR: _library.BXOR,
                _Kind.PREMUL_SUM: _library.SUM}

_OF_COMPLEX = (_Kind.SUM, _Kind.AVG, _Kind.PREMUL_SUM)  # what works on real and imaginary parts by themselves


class View(NamedTuple):
    """`tensor` is in one piece and in a type of the library's, and lives as long as the operation; `after`, if any, brings
    what it has received to the caller's tensor."""

    tensor: torch.Tensor
    address: int
    count: int
    dtype: int
    after: Optional[Callable[[], None]]


def _require_usable(tensor: torch.Tensor) -> None:
    if tensor.device.type != "cpu":
        raise ValueError(f"tutti moves CPU tensors, but this one is on {tensor.device}; "
                         "use init_process_group('cpu:tutti,cuda:nccl') for both")
    if tensor.layout != torch.strided:
        raise ValueError(f"tutti moves dense tensors, but this one is {tensor.layout}")


def view(tensor: torch.Tensor, receives: bool, reduced: bool = False) -> View:
    """`tensor` for an operation that reads it, or `receives` into it. `reduced`: its values are computed with."""
    number = _NUMBER_OF.get(tensor.dtype)
    if number is not None and tensor.is_contiguous() and tensor.device.type == "cpu" and not tensor.is_neg():
        return View(tensor, tensor.data_ptr(), tensor.numel(), number, None)
    _require_usable(tensor)
    tensor = tensor.detach()
    piece = tensor.contiguous().resolve_conj().resolve_neg()
    moved = torch.view_as_real(piece) if piece.is_complex() else piece
    if moved.dtype not in _NUMBER_OF:
        if not reduced:
            moved = moved.view(torch.uint8) if moved.dim() else moved.reshape(1).view(torch.uint8)
        elif moved.dtype in _REDUCED_AS:
            moved = moved.to(_REDUCED_AS[moved.dtype])
        else:
            raise ValueError(f"tutti cannot reduce tensors of {tensor.dtype}")
    after = None
    if receives and moved.data_ptr() != tensor.data_ptr():
        after = lambda: tensor.copy_(torch.view_as_complex(moved) if tensor.is_complex() else
                                     moved.view(tensor.dtype).view(tensor.shape) if moved.dtype == torch.uint8 else moved)
    return View(moved, moved.data_ptr(), moved.numel(), _NUMBER_OF[moved.dtype], after)


def operator_of(op, tensor: torch.Tensor) -> int:
    """The library's number of a ReduceOp."""
    if tensor.is_complex() and not any(op == kind for kind in _OF_COMPLEX):
        raise ValueError(f"tutti adds complex numbers, and has no {getattr(op, 'op', op)} of them")
    for kind, number in _OPERATOR_OF.items():
        if op == kind:
            return number
    raise ValueError(f"tutti has no reduction {op}")


def premultiplied(tensor: torch.Tensor, op) -> torch.Tensor:
    """The tensor, times the factor of a PREMUL_SUM."""
    return tensor.detach().clone().mul_(op.__getstate__()[1]) if op == _Kind.PREMUL_SUM else tensor


def premultiply(tensors, op) -> None:
    """The same in place. Not before all else that may be refused is checked: what is refused stays as it is."""
    if op == _Kind.PREMUL_SUM:
        for tensor in tensors:
            tensor.detach().mul_(op.__getstate__()[1])


def one_of(tensors) -> torch.Tensor:
    """The one tensor of a list; c10d's lists have one for each device of a process, of which a CPU has one."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"one tensor is expected, but there are {len(tensors)}")
    return tensors[0]


class Blocks:
    """A list of tensors as one piece of memory: theirs if they lie so, else a copy."""

    def __init__(self, tensors: List[torch.Tensor], receives: bool, reduced: bool = False, in_place: bool = False):
        views = [view(tensor, receives, reduced) for tensor in tensors]
        types = {one.dtype for one in views}
        if len(types) != 1:
            raise ValueError(f"the tensors of a list must be of one type, but are of {sorted({str(t.dtype) for t in tensors})}")
        self.dtype = types.pop()
        self.counts = [one.count for one in views]
        size = _library.SIZES[self.dtype]
        ends = [one.address + one.count * size for one in views]
        self.after: Optional[Callable[[], None]] = None
        if all(one.address == end for one, end in zip(views[1:], ends)) and not any(one.after for one in views):
            self.tensors, self.address = [one.tensor for one in views], views[0].address
            return
        pieces = [one.tensor.reshape(-1) for one in views]
        reads = in_place or not receives
        whole = torch.cat(pieces) if reads else torch.empty(sum(self.counts), dtype=pieces[0].dtype)
        self.tensors, self.address = [whole], whole.data_ptr()
        if receives:
            self.after = lambda: self._bring_home(pieces, views, whole)

    def _bring_home(self, pieces, views, whole) -> None:
        for piece, one, part in zip(pieces, views, whole.split(self.counts)):
            piece.copy_(part)
            if one.after:
                one.after()

    @property
    def are_equal(self) -> bool:
        return len(set(self.counts)) == 1
