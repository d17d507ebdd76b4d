#!/bin/sh
# Prints the table of results.txt for this machine: sh measure.sh 1x1 2x1 4x1 1x2
# Each layout runs three times; the run whose time is the median is printed. Nothing else should run meanwhile.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "# layout     time  compute  waiting   rest  steps"
for layout in "$@"; do
  ranks=${layout%x*} threads=${layout#*x}
  : >"$folder/rows"
  for _ in 1 2 3; do
    begin=$(date +%s.%N)
    tutti train mnist --nproc "$ranks" --threads "$threads" --epochs 2 --batch-size 64 --run-dir "$folder/run" \
      >"$folder/said" 2>&1 || { cat "$folder/said" >&2 && exit 1; }
    end=$(date +%s.%N)
    # A line for each step of each rank, with "seconds" and, in them, "wait_seconds".
    sed 's/.*"seconds":\([^,]*\),"wait_seconds":\([^,}]*\).*/\1 \2/' "$folder"/run/steps*.jsonl |
      awk -v layout="$layout" -v ranks="$ranks" -v begin="$begin" -v end="$end" '
        {compute += $1 - $2; waiting += $2}
        END {
          time = end - begin; compute /= ranks; waiting /= ranks
          printf "  %-8s %7.3f %8.3f %8.3f %6.3f %6d\n", layout, time, compute, waiting, time - compute - waiting, NR / ranks
        }' >>"$folder/rows"
    rm -rf "$folder/run"
  done
  sort -k2n "$folder/rows" | sed -n 2p
done
