#!/usr/bin/env bash
# Ranks without a launcher and without an open port: rank 0 and the others meet in a file. (programs.md, row 11)
#
#   tools/examples/meet_in_a_file.sh build/release/bin/examples/collectives 4
#
# A batch system that starts the same script on several nodes does the same with a file in a shared folder; RANK comes
# from its variables then. A left-over or half-written file is refused by name, never read as this job's.
set -euo pipefail

program=${1:?"usage: meet_in_a_file.sh PROGRAM [RANKS]"}
ranks=${2:-2}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TUTTI_STORE="file://$folder/store"                          # who is where
TUTTI_JOB_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')    # who may come in
export TUTTI_JOB_SECRET
export WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks

pids=()
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank LOCAL_RANK=$rank "$program" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit "$status"
