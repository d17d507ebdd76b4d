#!/usr/bin/env python3
"""Ranks add up their arrays; with numpy, or without it by the array module. Needs the package tutti (comm/python).

    PYTHONPATH=comm/python tutti run -n 3 -- python3 tools/examples/python/all_reduce.py [COUNT]
"""

import array
import sys

import tutti

try:
    import numpy
except ImportError:
    numpy = None


def values_of(rank, count):
    """rank, rank + 1, rank + 2, ... as float32."""
    if numpy:
        return numpy.arange(rank, rank + count, dtype=numpy.float32)
    return array.array("f", range(rank, rank + count))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tutti.connect() as group:
        values = values_of(group.rank, count)
        group.all_reduce(values)  # in place: the sum over all ranks

        ranks = group.world_size
        wrong = sum(value != ranks * i + ranks * (ranks - 1) / 2 for i, value in enumerate(values))
        kind = f"numpy.{values.dtype}" if numpy else "array.array"
        print(f"rank {group.rank} of {ranks}: {kind} x {count}, first {values[0]:g}, last {values[-1]:g}, {wrong} wrong")
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
