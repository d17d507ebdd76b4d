"""PyTorch's torch.distributed over Tutti.

    torch.distributed.init_process_group("tutti")     # with the package installed, nothing needs to be imported

Works under `tutti run`, torchrun, srun, mpirun and torch.multiprocessing.spawn, with env://, file:// and tcp://: the ranks
meet by what rank 0 writes into the store that PyTorch has opened. That text holds the secret by which ranks prove who they
are, so whoever can read PyTorch's store can join, as with gloo; if TUTTI_JOB_SECRET is set on all ranks (`tutti run` does
so), it is used instead, and the store holds no secret. TUTTI_ENCRYPT=1 encrypts what ranks send between hosts.

Tensors on GPUs, and sparse ones other than COO, are refused by name. Written for PyTorch 2.15; with 2.8, import this module
first (PyTorch has found backends by name since 2.14), and use a group for one device alone. Older versions are refused.
"""

from __future__ import annotations

import torch

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8):
    raise ImportError(f"tutti.torch needs PyTorch 2.8 or later, found {torch.__version__}, in which DistributedDataParallel hangs "
                      "over a backend written in Python (with 2.4 it does)")

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .communicator import Communicator
from .group import CAN_EXTEND_BACKEND, Backend, Group, OlderGroup
from .work import Work

__all__ = ["Backend", "Group", "Work", "register"]


class _Creator:
    """What PyTorch calls for each group that is to go by `name`. A process group that we return is the whole of it; where it
    is to have backends for other devices, too, we return that for CPU tensors."""

    def __init__(self, name: str):
        self._name = name

    def __call__(self, opts, _options=None):
        communicator = Communicator(self._name, opts.store, opts.group_rank, opts.group_size, opts.timeout)
        if not CAN_EXTEND_BACKEND:
            return OlderGroup(communicator)
        backend = Backend(communicator, c10d.Backend.Options(self._name, opts.timeout))
        is_ours = opts.process_group.name() == dist.Backend.backend_type_map[self._name].name.lower()
        return Group(opts.store, backend) if is_ours else backend


def register(name: str = "tutti") -> None:
    """Makes init_process_group(name) create Tutti's groups. Called at the import of this module, for "tutti"; nothing
    happens if that is done already. name="gloo" takes the place of PyTorch's own in this process."""
    known = dist.Backend._plugins.get(name.upper())
    if known is None or not isinstance(known.creator_fn, _Creator):
        more = {"_backend_type": dist.ProcessGroup.BackendType.GLOO} if name == "gloo" else {}
        dist.Backend.register_backend(name, _Creator(name), extended_api=True, devices=["cpu"], **more)


register()
