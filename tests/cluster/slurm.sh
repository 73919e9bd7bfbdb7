# A real SLURM on one machine: munged, slurmctld and two slurmd (nodes n01 and n02) on loopback, with
# folders and ports of this shell's own. To be sourced. Needs root, slurm-wlm and munge.
#
#   slurm_possible || skip "$why"
#   slurm_up           sets SLURM_CONF, so that sbatch, srun and scontrol find it
#   slurm_wait JOB STATE… SECONDS     until squeue or scontrol shows one of the states
#   slurm_down         also when the shell ends

slurm_possible() {
  why=
  [ "$(id -u)" = 0 ] || { why="slurmd needs root"; return 1; }
  for tool in slurmctld slurmd munged srun sbatch mpirun; do
    command -v $tool >/dev/null || { why="$tool is not installed"; return 1; }
  done
  getent passwd slurm >/dev/null || { why="there is no user 'slurm'"; return 1; }
}

slurm_up() {
  slurm_folder=$(mktemp -d /tmp/tessera_slurm.XXXXXX)
  chmod 755 "$slurm_folder"
  trap 'slurm_down' EXIT
  trap 'exit 1' INT TERM
  slurm_pids=()
  local base=$((20000 + $$ % 10000)) cores
  cores=$(nproc)
  dd if=/dev/urandom of="$slurm_folder/munge.key" bs=128 count=1 status=none
  chmod 400 "$slurm_folder/munge.key"
  munged --foreground --force --key-file="$slurm_folder/munge.key" \
    --socket="$slurm_folder/munge.socket" --pid-file="$slurm_folder/munge.pid" \
    --log-file="$slurm_folder/munge.log" --seed-file="$slurm_folder/munge.seed" \
    >"$slurm_folder/munged.out" 2>&1 &
  slurm_pids+=($!)
  mkdir -p "$slurm_folder"/{state,spool-n01,spool-n02,tmp-n01,tmp-n02}
  cat >"$slurm_folder/slurm.conf" <<CONF
ClusterName=tessera
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm_folder/munge.socket
CredType=cred/munge
CryptoType=crypto/munge
SlurmctldPort=$base
SlurmctldPidFile=$slurm_folder/slurmctld.pid
SlurmctldLogFile=$slurm_folder/slurmctld.log
StateSaveLocation=$slurm_folder/state
SlurmdPidFile=$slurm_folder/slurmd-%n.pid
SlurmdLogFile=$slurm_folder/slurmd-%n.log
SlurmdSpoolDir=$slurm_folder/spool-%n
SlurmdParameters=config_overrides
MpiDefault=pmi2
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
JobRequeue=1
ReturnToService=2
TmpFS=$slurm_folder/tmp-%n
KillWait=10
MinJobAge=600
NodeName=n01 NodeAddr=127.0.0.1 NodeHostname=$(hostname) Port=$((base + 1)) CPUs=8 RealMemory=2000
NodeName=n02 NodeAddr=127.0.0.1 NodeHostname=$(hostname) Port=$((base + 2)) CPUs=8 RealMemory=2000
PartitionName=main Nodes=n01,n02 Default=YES MaxTime=60 State=UP OverTimeLimit=0
CONF
  export SLURM_CONF=$slurm_folder/slurm.conf
  # Both nodes have this machine's name, and Open MPI names its shared memory by name and local
  # rank: rank 0 of one node would write into that of the other's.
  export OMPI_MCA_btl=tcp,self
  for _ in {1..50}; do [ -S "$slurm_folder/munge.socket" ] && break; sleep 0.1; done
  slurmctld -D -c >"$slurm_folder/slurmctld.out" 2>&1 &
  slurm_pids+=($!)
  for node in n01 n02; do
    slurmd -D -N $node >"$slurm_folder/slurmd-$node.out" 2>&1 &
    slurm_pids+=($!)
  done
  for _ in {1..100}; do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && return 0
    sleep 0.2
  done
  why="SLURM did not start: $(tail -n 3 "$slurm_folder"/*.log | tr '\n' ' ')"
  return 1
}

slurm_state() { scontrol -o show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }

# slurm_wait JOB SECONDS STATE…
slurm_wait() {
  local job=$1 until=$((SECONDS + $2)) state
  shift 2
  while [ $SECONDS -lt $until ]; do
    state=$(slurm_state "$job")
    for wanted in "$@"; do [ "$state" = "$wanted" ] && return 0; done
    sleep 0.3
  done
  echo "job $job is $state, wanted $*" >&2
  return 1
}

slurm_down() {
  [ -n "${slurm_folder:-}" ] || return 0
  scancel --quiet -u root 2>/dev/null
  sleep 0.5
  local i
  for ((i = ${#slurm_pids[@]} - 1; i >= 0; i--)); do kill "${slurm_pids[i]}" 2>/dev/null; done
  for ((i = ${#slurm_pids[@]} - 1; i >= 0; i--)); do wait "${slurm_pids[i]}" 2>/dev/null; done
  rm -rf "$slurm_folder"
  slurm_folder=
}
