#!/bin/sh
# b) /bin/hostname, nine tasks on three nodes. One srun line:

