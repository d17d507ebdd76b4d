"""Tutti: collective communication between processes. In a program that `tutti run`, torchrun, srun or mpirun starts:

    import numpy, tutti

    with tutti.connect() as group:
        values = numpy.full(1000, group.rank, dtype=numpy.float32)
        group.all_reduce(values)                    # in place: the sum over all ranks
        settings = group.broadcast_object({"seed": 7}, root=0)

Buffers are used where they are, and never copied: numpy arrays, array.array, bytearray, memoryview, torch tensors of the CPU, and
what has `__dlpack__` (tutti.buffers). Group has the calls: collectives (tutti.collectives), each with a twin `_async` that returns a
Work; messages (tutti.messages); Python objects (tutti.objects); split, subgroup, store, allocate (tutti.group).

What fails raises TuttiError with the library's text; a buffer that does not fit raises TypeError, BufferError or ValueError before
anything is sent. Every wait has a deadline, `timeout`. One thread at a time issues operations on a group.
"""

from ._library import (ABI_VERSION, ANY_SOURCE, AVG, BAND, BOR, BXOR, DTYPES, MAX, MIN, PROD, SUM, TuttiError, version)
from .buffers import Buffer
from .group import Group, World, connect, invite
from .store import Store
from .work import Operator, Reduction, Work

__all__ = ["ABI_VERSION", "ANY_SOURCE", "AVG", "BAND", "BOR", "BXOR", "Buffer", "DTYPES", "Group", "MAX", "MIN", "Operator", "PROD",
           "Reduction", "SUM", "Store", "TuttiError", "Work", "World", "connect", "invite", "version"]
