#!/usr/bin/env python3
"""Writes samplers.txt beside this script from PyTorch's DistributedSampler (made with 1.13).

Each line: count replicas rank shuffle seed drop_last epoch length indices...
"""
import itertools
import pathlib

from torch.utils.data.distributed import DistributedSampler

with open(pathlib.Path(__file__).resolve().parent / "samplers.txt", "w") as out:
    for count, replicas in ((1, 1), (1, 3), (2, 5), (10, 1), (10, 3), (10, 4), (12, 4), (23, 2)):
        for rank, shuffle, (seed, epoch), drop_last in itertools.product(
            range(replicas), (0, 1), ((0, 0), (5, 2), (42, 0)), (0, 1)
        ):
            sampler = DistributedSampler(range(count), replicas, rank, bool(shuffle), seed, bool(drop_last))
            sampler.set_epoch(epoch)
            indices = list(sampler)
            assert len(indices) == len(sampler)
            print(count, replicas, rank, shuffle, seed, drop_last, epoch, len(indices), *indices, file=out)
