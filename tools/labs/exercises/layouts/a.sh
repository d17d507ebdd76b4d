#!/bin/sh
# a) /bin/hostname, exactly one task on each of three nodes. One srun line:

