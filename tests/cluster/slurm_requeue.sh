#!/bin/bash
# A run over two nodes of a real SLURM: killed, sent back to the queue and told to leave before its
# time limit, it ends with the losses of an unbroken one.
# usage: tests/cluster/slurm_requeue.sh TESSERA      exit 77: this machine does not allow it
set -u
here=$(cd "$(dirname "$0")" && pwd)
tessera=$(realpath "$1")
. "$here/slurm.sh"
. "$here/small_run.sh"

slurm_possible || { echo "skipped: $why"; exit 77; }
slurm_up || { echo "skipped: $why"; exit 77; }
base=$slurm_folder/base
small_run "$base" "$tessera" || exit 1
keys=(schedule.steps=60 checkpoint.every_steps=10 checkpoint.keep=0)

# submit NAME OPTION…: a run of that name, its job's number on standard output.
submit() {
  local name=$1
  shift
  "$tessera" submit "$base/run.yaml" --nodes 2 --tasks-per-node 2 --json "$@" "${keys[@]}" \
    run.directory="$base/$name" run.name="$name" | sed -n 's/.*Submitted batch job \([0-9]*\).*/\1/p'
}
losses() { sed -n 's/.*"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }
wait_for_step() {
  for _ in {1..900}; do
    [ -n "$(losses "$1" 2>/dev/null | awk -v s="$2" '$1 >= s')" ] && return 0
    sleep 0.2
  done
  return 1
}
rank_named() {  # a process that trains the run of that name
  local file
  for file in /proc/[0-9]*/cmdline; do
    tr '\0' ' ' 2>/dev/null <"$file" | grep -q " train $base/run.yaml .*run.name=$1" || continue
    file=${file%/cmdline}
    echo "${file#/proc/}"
    return
  done
}
fail() {
  echo "FAILED: $*"
  tail -n 20 "$base"/*/slurm-*.txt
  exit 1
}

unbroken=$(submit unbroken --time 10)
slurm_wait "$unbroken" 300 COMPLETED || fail "the unbroken run did not end"

# A rank dies and launch has no restart: the job goes back to the queue.
killed=$(submit killed --time 10 --restart 0)
wait_for_step "$base/killed" 25 || fail "the run to be killed does not run"
kill -9 "$(rank_named killed)" || fail "no rank to kill"
slurm_wait "$killed" 300 COMPLETED || fail "the killed run did not end"
[ "$(scontrol -o show job "$killed" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')" = 1 ] ||
  fail "the killed run was not sent back to the queue"

# The time is up: the run saves, leaves, and goes back.
short=$(submit short --time 1 --grace 30)
slurm_wait "$short" 900 COMPLETED || fail "the run with a short limit did not end"

for name in killed short; do
  if ! diff <(losses "$base/unbroken") <(losses "$base/$name") >"$base/diff"; then
    head -5 "$base/diff"
    fail "$name has other losses than the unbroken run"
  fi
  echo "$name: $(losses "$base/$name" | wc -l) losses as in the unbroken run, restarts $(
    scontrol -o show job "$(if [ $name = killed ]; then echo "$killed"; else echo "$short"; fi)" |
      sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')"
done
