#!/bin/bash
# MNIST on several hosts over plain ssh: one `tutti run` on each host, no batch system and no MPI.
#
#   ssh_agents.sh 4 lab1 lab2 lab3        four ranks on each of three hosts; the first is node 0
#
# You must be able to `ssh lab2` without a password; tutti and the data must be at the same path on all hosts. The hosts
# must know the first one by the name that you give here, and reach its port PORT.
set -eu

ranks=${1:?how many ranks on each host}
shift
(($# > 0)) || { echo "name at least one host" >&2 && exit 2; }
hosts=("$@")
tutti=${TUTTI:-$HOME/tutti/build/release/bin/tutti}
data=${TUTTI_DATA:-$HOME/tutti/data/mnist}
rsh=${RSH:-ssh}
port=${PORT:-29400}

# The agents prove a secret to each other, the one of ~/.config/tutti/job_secret on each host. Where home folders are not
# shared, copy it first:  scp -p ~/.config/tutti/job_secret lab2:.config/tutti/
agents=()
trap 'kill "${agents[@]}" 2>/dev/null' INT TERM
for node in "${!hosts[@]}"; do
  # A host's name, and then a line for its shell; a lost connection ends that agent's ranks.
  "$rsh" "${hosts[node]}" "'$tutti' run --nnodes ${#hosts[@]} --node-rank $node --master-addr '${hosts[0]}' \
    --master-port $port --nproc-per-node $ranks -- '$tutti' train mnist --data '$data' ${TRAIN_OPTIONS:-}" &
  agents+=($!)
done

# The status is that of the first agent that failed; all of them end when one does.
status=0
for agent in "${agents[@]}"; do
  wait "$agent" || status=$?
done
exit "$status"
