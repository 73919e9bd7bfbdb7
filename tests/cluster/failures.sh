#!/bin/bash
# Twelve ways in which one rank of four, on two hosts, goes wrong: what `tessera launch` says, and how
# long it takes until no rank runs any more.
# usage: tests/cluster/failures.sh TESSERA [CASE…]      exit 77: this machine does not allow it
set -u
here=$(cd "$(dirname "$0")" && pwd)
tessera=$(realpath "$1")
shift
. "$here/hosts.sh"
. "$here/small_run.sh"

skip() { echo "skipped: $*"; exit 77; }
hosts_possible || skip "$why"
command -v cc >/dev/null || skip "no C compiler"
command -v python3 >/dev/null || skip "no python3"

all=(dead-at-start forward collective save stopped cut-link full-disk nan memory version config clock)
[ $# = 0 ] && set -- "${all[@]}"
limit_s=10  # until all ranks have ended
failed=0

hosts_up 2
printf 'n01 slots=2\nn02 slots=2\n' >"$hosts_folder/hosts"
base=$hosts_folder/base
small_run "$base" "$tessera" || exit 1
for lie in clock full_disk; do
  cc -shared -fPIC -O1 -o "$base/$lie.so" "$here/$lie.c" -ldl || exit 1
done
# The same program, but for the version it says.
perl -pe 's/\x000\.1\.0\x00/\x000.1.9\x00/g' "$tessera" >"$base/other_tessera"
chmod +x "$base/other_tessera"

ranks() {  # processes of the run, on both hosts
  local pid
  for pid in $(host_processes n01 "$base/run.yaml") $(host_processes n02 "$base/run.yaml"); do
    [ -n "$(rank_of "$pid")" ] && echo "$pid"
  done
}
rank_of() { tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p'; }
pid_of() {
  local pid
  for pid in $(ranks); do [ "$(rank_of "$pid")" = "$1" ] && echo "$pid" && return; done
}
alive() {  # whether one of these processes, or launch, still runs
  local pid state
  for pid in "$launch" "$@"; do
    read -r state 2>/dev/null <"/proc/$pid/stat" && [[ $state != *") Z "* ]] && return 0
  done
  return 1
}
now() { date +%s.%N; }
step() { tail -1 "$base/run/metrics.jsonl" 2>/dev/null | sed -n 's/.*"step":\([0-9]*\).*/\1/p'; }
wait_for_step() {
  for _ in {1..600}; do
    [ "$(step)" ] && [ "$(step)" -ge "$1" ] && return 0
    kill -0 "$launch" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

start() {  # CASE key=value…
  local case=$1
  shift
  rm -rf "$base/run"
  # shellcheck disable=SC2086
  "$tessera" launch "$base/run.yaml" -n 4 --hosts "$hosts_folder/hosts" --address "$hosts_net.1" \
    --launcher-args "$hosts_mpi" --program "$here/wrong_rank.sh $case $base $tessera train" "$@" \
    >"$base/out" 2>"$base/err" &
  launch=$!
}

disturb() {  # CASE, once the run is under way
  case $1 in
    forward) kill -9 "$(pid_of 2)" ;;
    collective)  # rank 3 stands still, so that rank 2 waits for it when it dies
      kill -STOP "$(pid_of 3)"
      sleep 3
      began=$(now)
      kill -9 "$(pid_of 2)" ;;
    save)
      local victim
      victim=$(pid_of 2)
      while ! compgen -G "$base/run/checkpoints/*" >/dev/null; do sleep 0.002; done
      began=$(now)
      kill -9 "$victim" ;;
    stopped) kill -STOP "$(pid_of 2)" ;;
    cut-link) hosts_cut n02 ;;
    nan) "$here/write_nan.py" "$(pid_of 2)" ;;
  esac
}

# What each must say; all must name the rank, or the host.
wanted() {
  case $1 in
    dead-at-start) echo 'rank 3 died (signal 9, Killed) before it had reported\|Rank 3 had not reported' ;;
    forward) echo 'rank 2 (host n02.*died (signal 9, Killed).*in step' ;;
    collective) echo 'rank 2 (host n02.*died (signal 9, Killed)[^.]*[^ ]* s earlier it was in step [^.]*\(over\|reduce\|gather\)' ;;
    save) echo 'rank 2 (host n02.*died (signal 9, Killed).*saving' ;;
    stopped) echo 'rank 2 (host n02.*stopped answering' ;;
    cut-link) echo 'ranks 2 and 3, all of host n02, stopped answering' ;;
    full-disk) echo 'rank 3 on n02.*No space left on device' ;;
    nan) echo 'NaN\|not finite' ;;
    memory) echo 'rank 3 (host n02.*memory' ;;
    version) echo 'ranks 2 and 3 on n02 run tessera 0.1.9, the others 0.1.0' ;;
    config) echo 'rank 3 on n02 has another configuration' ;;
    clock) echo 'the clock of n02 is 35 s ahead' ;;
  esac
}

report() {  # CASE SECONDS VERDICT
  printf '%-14s %6s s  %s\n' "$1" "$2" "$3"
  grep -v '^warning: .*vader\|^$' "$base/err" | sed 's/^/                 /' | head -12
}

run_case() {
  local case=$1 began ended took there ok=ok keys=()
  case $case in
    save) keys=(checkpoint.every_steps=8) ;;
    full-disk) keys=(schedule.steps=3 checkpoint.retry_s=0) ;;
    clock) keys=(schedule.steps=4) ;;
  esac
  began=$(now)
  start "$case" "${keys[@]}"
  case $case in
    forward|collective|stopped|cut-link|nan|save)
      wait_for_step 5 || { echo "$case: the run does not run"; cat "$base/err"; failed=1; return; }
      there=$(ranks)
      began=$(now)
      disturb "$case" ;;
    full-disk) wait_for_step 3; there=$(ranks); began=$(now) ;;
    *) there=$(ranks) ;;
  esac
  # shellcheck disable=SC2086
  for _ in {1..1200}; do
    alive $there || break
    sleep 0.05
  done
  ended=$(now)
  alive $there && kill -9 "$launch"  # and by that all ranks
  wait "$launch" 2>/dev/null
  hosts_join n02
  took=$(awk -v a="$began" -v b="$ended" 'BEGIN { printf "%.1f", b - a }')
  tr '\n' ' ' <"$base/err" | grep -q -- "$(wanted "$case")" || ok="WRONG WORDS"
  if [ "$case" != clock ] && awk -v t="$took" -v l="$limit_s" 'BEGIN { exit !(t > l) }'; then
    ok="TOO SLOW"
  fi
  [ "$ok" = ok ] || failed=1
  report "$case" "$took" "$ok"
}

for case in "$@"; do run_case "$case"; done
exit $failed
