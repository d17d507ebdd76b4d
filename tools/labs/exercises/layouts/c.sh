#!/bin/sh
# c) /bin/hostname, three tasks on arnold and three on bruce. One srun line:

