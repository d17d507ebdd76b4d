# A Slurm of several nodes on this machine, all of it in one private folder: munge, a controller and a node daemon for each
# node, on ports that are free. Sourced by slurm; needs root, as Slurm's node daemons do.
#
#   slurm_cluster_missing        prints the programs that are not installed (Debian: slurmctld slurmd slurm-client munge)
#   slurm_cluster_start DIR N    starts nodes n1 ... nN with 4 CPUs each; sets SLURM_CONF; status 1 if it does not come up
#   slurm_cluster_stop           ends every process that was started, and those of jobs
#
# Slurm takes no port 0, so ports are looked for first; who loses such a race starts again with others.
# shellcheck shell=bash

slurm_cluster_pids=()

slurm_cluster_missing() {
  local program missing=()
  for program in slurmctld slurmd srun sbatch scontrol munged; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || missing+=("$program")
  done
  printf '%s' "${missing[*]}"
}

slurm_cluster_free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
held = [socket.create_server(("0.0.0.0", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))
PYTHON
}

slurm_cluster_configure() {
  local dir=$1 nodes=$2 host ports
  host=$(hostname -s)
  read -ra ports < <(slurm_cluster_free_ports $((nodes + 1)))
  {
    printf '%s\n' "ClusterName=tutti" "SlurmctldHost=$host(127.0.0.1)" "SlurmctldPort=${ports[0]}" \
      "SlurmUser=root" "SlurmdUser=root" "AuthType=auth/munge" "CryptoType=crypto/munge" "AuthInfo=socket=$dir/munge.socket" \
      "StateSaveLocation=$dir/state" "SlurmdSpoolDir=$dir/spool-%n" "SlurmctldPidFile=$dir/slurmctld.pid" \
      "SlurmdPidFile=$dir/slurmd-%n.pid" "SlurmctldLogFile=$dir/slurmctld.log" "SlurmdLogFile=$dir/slurmd-%n.log" \
      "ProctrackType=proctrack/linuxproc" "TaskPlugin=task/none" "JobAcctGatherType=jobacct_gather/none" \
      "SelectType=select/cons_tres" "SelectTypeParameters=CR_Core" "SlurmdParameters=config_overrides" \
      "SwitchType=switch/none" "MpiDefault=none" "ReturnToService=2" "KillWait=2" "SchedulerParameters=sched_interval=2" \
      "MailProg=/bin/true"
    local node
    for ((node = 1; node <= nodes; node++)); do
      echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[node]} CPUs=4 State=UNKNOWN"
    done
    echo "PartitionName=all Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP"
  } >"$dir/slurm.conf"
  echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
  export SLURM_CONF=$dir/slurm.conf
}

slurm_cluster_daemon() {  # log file, command: a daemon that stays in the foreground
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  slurm_cluster_pids+=($!)
}

slurm_cluster_wait() {  # seconds, command: until the command succeeds
  local until=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= until)); then return 1; fi
    sleep 0.2
  done
}

slurm_cluster_queue_empty() { [[ -z $(squeue -h) ]]; }

slurm_cluster_nodes_idle() { [[ $(sinfo -h -t idle -o %D | head -1) == "$1" ]]; }

slurm_cluster_start() {
  local dir=$1 nodes=$2 node try
  export PATH=$PATH:/usr/sbin:/sbin
  mkdir -p "$dir/state"
  chmod 755 "$dir"
  (umask 077 && dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 status=none)
  slurm_cluster_daemon "$dir/munged.log" munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munged.out" --seed-file="$dir/munge.seed"
  slurm_cluster_wait 20 munge -S "$dir/munge.socket" -n || return 1
  for try in 1 2 3; do
    slurm_cluster_configure "$dir" "$nodes"
    slurm_cluster_daemon "$dir/slurmctld.err" slurmctld -D -f "$SLURM_CONF"
    for ((node = 1; node <= nodes; node++)); do
      mkdir -p "$dir/spool-n$node"
      slurm_cluster_daemon "$dir/slurmd-n$node.err" slurmd -D -N "n$node" -f "$SLURM_CONF"
    done
    if slurm_cluster_wait 60 slurm_cluster_nodes_idle "$nodes"; then return 0; fi
    echo "Slurm did not come up (try $try):" >&2
    tail -n 3 "$dir"/slurm*.err "$dir"/slurm*.log >&2
    slurm_cluster_stop_from 1
  done
  return 1
}

slurm_cluster_stop_from() {  # index of the first daemon to end
  local pid
  for pid in "${slurm_cluster_pids[@]:$1}"; do kill "$pid" 2>/dev/null; done
  for pid in "${slurm_cluster_pids[@]:$1}"; do wait "$pid" 2>/dev/null; done
  slurm_cluster_pids=("${slurm_cluster_pids[@]:0:$1}")
}

slurm_cluster_stop() {
  if ((${#slurm_cluster_pids[@]} == 0)); then return; fi
  scancel --user=root 2>/dev/null
  slurm_cluster_wait 15 slurm_cluster_queue_empty
  slurm_cluster_stop_from 0
}
