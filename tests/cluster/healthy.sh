#!/bin/bash
# Healthy runs of eight ranks on however few cores there are: none may give an alarm.
# usage: tests/cluster/healthy.sh TESSERA [RUNS]      exit 77: this machine does not allow it
set -u
here=$(cd "$(dirname "$0")" && pwd)
tessera=$(realpath "$1")
runs=${2:-100}
. "$here/small_run.sh"
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed"; exit 77; }

folder=$(mktemp -d /tmp/tessera_healthy.XXXXXX)
trap 'rm -rf "$folder"' EXIT
small_run "$folder" "$tessera" || exit 1
alarms=0
for ((i = 1; i <= runs; i++)); do
  rm -rf "$folder/run"
  if ! "$tessera" launch "$folder/run.yaml" -n 8 layout.data=8 batch.micro=1 schedule.steps=3 \
    run.seed="$i" >"$folder/out" 2>"$folder/err"; then
    alarms=$((alarms + 1))
    echo "run $i:"
    cat "$folder/err"
  fi
done
echo "$runs runs of 8 ranks on $(nproc) cores: $alarms alarms"
[ "$alarms" = 0 ]
