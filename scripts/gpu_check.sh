#!/bin/bash
# Proves the CUDA side on a machine with a GPU, in parts that can be resumed: a part that is done is
# not run again until its line is taken out of the report.
# usage: scripts/gpu_check.sh [-l] [PART…]   in a checkout with build/, or in a gpu_bundle folder
#   -l  lists the parts
# environment: GPU_REPORT (default gpu_report.txt), GPU_PART_S (seconds a part may take, default 470),
#   GPU_SHAPES (of bench: lines of preset, tokens, sequences)
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -f "$here/programs.tar.gz" ]; then
  cd "$here" || exit 1
  [ -d bin ] || tar -xzf programs.tar.gz || exit 1
  program=$PWD/bin/tessera tests=bin runs=gpu_runs.sh
  export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
  cd "$here/.." || exit 1
  program=$PWD/build/tessera tests=build/tests/cuda runs=scripts/gpu_runs.sh
fi
report=${GPU_REPORT:-gpu_report.txt} limit=${GPU_PART_S:-470}
parts="device ops kernels training scoring products parity layouts resume offload eval sanitizer bench"

part_device() { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader; }
part_ops() { "$tests/cuda_ops_test"; }
part_kernels() { "$tests/cuda_kernels_test"; }
part_training() { "$tests/cuda_training_test"; }
part_scoring() { "$tests/cuda_eval_test"; }
part_products() { "$tests/cuda_products_test"; }
part_sanitizer() {
  command -v compute-sanitizer >/dev/null || return 77
  compute-sanitizer --error-exitcode 1 "$tests/cuda_kernels_test" &&
    compute-sanitizer --tool racecheck --error-exitcode 1 "$tests/cuda_kernels_test"
}

if [ "${1:-}" = -l ]; then
  echo "$parts"
  exit 0
fi
touch "$report"
# A skipped test says nothing of the device, so it is "not run".
judge() {  # STATUS LOG
  if [ "$1" = 124 ]; then echo "NOT FINISHED in $limit s"
  elif [ "$1" = 77 ]; then echo "NOT RUN: a tool is missing"
  elif [ "$1" != 0 ]; then echo "FAILED ($1)"
  elif grep -q 'SKIPPED' "$2"; then echo "NOT RUN: $(grep -m1 -i 'no CUDA\|without CUDA' "$2")"
  else echo "passed"; fi
}
export program tests runs
export -f part_device part_ops part_kernels part_training part_scoring part_products part_sanitizer
bad=0
for part in ${*:-$parts}; do
  if grep -q "^$part: passed" "$report"; then
    echo "$part: done before"
    continue
  fi
  log=$(mktemp)
  begin=$(date +%s)
  timeout "$limit" bash -c ". ./$runs && part_$part" >"$log" 2>&1
  verdict=$(judge $? "$log")
  sed -i "/^$part: /d" "$report"
  echo "$part: $verdict, $(($(date +%s) - begin)) s" | tee -a "$report"
  case $verdict in passed*) case $part in device | bench) cat "$log" >>"$report" ;; esac ;; *) tail -30 "$log"; bad=1 ;; esac
  rm -f "$log"
done
for part in $parts; do
  grep -q "^$part: " "$report" || { echo "$part: NOT RUN" | tee -a "$report"; bad=1; }
done
exit $bad
