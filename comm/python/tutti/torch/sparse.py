"""all_reduce of sparse tensors: each rank gathers the entries of all, and adds them up in the order of ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .work import Done


def all_reduce_sparse(group, tensor: torch.Tensor, op) -> dist.Work:
    """Synchronous. The result is coalesced. ValueError unless it is a sum of COO tensors."""
    if tensor.layout != torch.sparse_coo or op != dist.ReduceOp.SUM:
        raise ValueError(f"tutti adds sparse COO tensors; this one is {tensor.layout}, and the operation is {op}")
    size, own = group.communicator.size, tensor.coalesce()
    counts = torch.empty(size, dtype=torch.int64)
    group.all_gather_single(counts, torch.tensor([own._nnz()])).wait()
    dense = own.values().shape[1:]
    indices = [torch.empty((own.sparse_dim(), n), dtype=torch.int64) for n in counts.tolist()]
    values = [torch.empty((n, *dense), dtype=own.dtype) for n in counts.tolist()]
    group.allgather([indices], [own.indices()]).wait()
    group.allgather([values], [own.values()]).wait()
    tensor.copy_(torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), tensor.shape).coalesce())
    return Done([tensor])
