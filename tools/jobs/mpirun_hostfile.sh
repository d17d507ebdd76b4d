#!/bin/bash
# MNIST on the hosts of a file, started by Open MPI's mpirun or by MPICH's mpiexec over ssh, without a batch system.
#
#   mpirun_hostfile.sh HOSTS 8            eight ranks on the hosts that the file HOSTS lists
#
# HOSTS is written in the launcher's own form:   Open MPI   lab1 slots=4        MPICH   lab1:4
#                                                           lab2 slots=4                lab2:4
# You must be able to `ssh lab2` without a password, and tutti and the data must be at the same path on all hosts.
set -eu

hosts=${1:?the file that lists the hosts} ranks=${2:?how many ranks}
shift 2
tutti=${TUTTI:-$HOME/tutti/build/release/bin/tutti}
data=${TUTTI_DATA:-$HOME/tutti/data/mnist}
mpirun=${MPIRUN:-mpirun}

# The ranks prove a secret to each other. It is in ~/.config/tutti/job_secret; where the hosts do not share a home folder,
# copy that file to all of them (scp -p), or give all ranks TUTTI_JOB_SECRET (mpirun -x TUTTI_JOB_SECRET).
# Rank 0 publishes its address in ~/.config/tutti/meet, or in TUTTI_MEET_DIR; without any shared folder give MASTER_ADDR (a
# name of the first host that the others know) and MASTER_PORT (a free port of it):
#   mpirun -x MASTER_ADDR=lab1 -x MASTER_PORT=29500 ...              Open MPI
#   mpiexec -genv MASTER_ADDR lab1 -genv MASTER_PORT 29500 ...       MPICH

# shellcheck disable=SC2086  # MPIRUN_OPTIONS are several words
if "$mpirun" --version 2>&1 | grep -qi 'open.*mpi\|prrte\|openrte'; then
  "$mpirun" ${MPIRUN_OPTIONS:-} --hostfile "$hosts" -n "$ranks" "$tutti" train mnist --data "$data" "$@"
else
  "$mpirun" ${MPIRUN_OPTIONS:-} -f "$hosts" -n "$ranks" "$tutti" train mnist --data "$data" "$@"
fi
