#!/bin/bash
# Measures how much of the communication is hidden by computation, for ZeRO stages 0, 1 and 3: two ranks of
# one thread on two hosts (network namespaces), with a link so slow that the time of communication alone is
# SHARE times that of computation alone.
#   computation    two ranks at once that share nothing, each with half of the batch
#   communication  the bytes of a step that left a host, by its link's counter, at the link's rate
#   hidden = (computation + communication − step) / the smaller of the two
# Stage 0 cannot hide more than its backward is long: nothing is to be sent before it.
# usage: scripts/bench_overlap.sh TESSERA [SHARE [STEPS]]     exit 77: this machine does not allow it
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tessera=$(realpath "$1")
share=${2:-0.75}
steps=${3:-8}
. "$here/tests/cluster/hosts.sh"
. "$here/tests/cluster/small_run.sh"
hosts_possible || { echo "skipped: $why"; exit 77; }
hosts_up 2
printf 'n01 slots=1\nn02 slots=1\n' >"$hosts_folder/hosts"
base=$hosts_folder/base
small_run "$base" "$tessera" || exit 1
keys=(model.layers=12 model.hidden=512 model.heads=8 model.vocabulary=8192 model.context=256
  data.sequence_length=256 batch.micro=4 checkpoint.every_steps=0)

# The median time of a step but for the first two, of a run directory, in seconds.
step_s() {
  sed -n 's/.*"step_s":\([^,}]*\).*/\1/p' "$1/metrics.jsonl" | tail -n +3 | sort -g |
    awk '{ t[NR] = $1 } END { printf "%.3f", NR % 2 ? t[(NR + 1) / 2] : (t[NR / 2] + t[NR / 2 + 1]) / 2 }'
}
alone() {  # FOLDER: one rank of its own
  "$tessera" train "$base/run.yaml" "${keys[@]}" schedule.steps="$steps" layout.data=1 batch.global=4 \
    layout.zero=0 run.directory="$1" >"$1.out" 2>&1
}
together() {  # FOLDER STEPS ZERO: sets $bytes, that a host sent in a step
  local before
  before=$(hosts_bytes n02)
  "$tessera" launch "$base/run.yaml" -n 2 --hosts "$hosts_folder/hosts" --address "$hosts_net.1" --launcher-args "$hosts_mpi" \
    "${keys[@]}" schedule.steps="$2" layout.data=2 batch.global=8 layout.zero="$3" run.directory="$1" \
    >"$1.out" 2>&1 || { cat "$1.out"; exit 1; }
  bytes=$((($(hosts_bytes n02) - before) / $2))
}

for zero in 0 1 3; do
  alone "$base/a$zero" & alone "$base/b$zero" & wait
  compute=$(awk -v a="$(step_s "$base/a$zero")" -v b="$(step_s "$base/b$zero")" 'BEGIN { print (a > b ? a : b) }')
  hosts_limit 10gbit
  together "$base/quick$zero" 3 $zero
  rate=$(awk -v b=$bytes -v c="$compute" -v s="$share" 'BEGIN { printf "%.0f", b * 8 / (s * c) / 1e3 }')
  hosts_limit "${rate}kbit"
  together "$base/zero$zero" "$steps" $zero
  awk -v z=$zero -v c="$compute" -v b=$bytes -v r="$rate" -v s="$(step_s "$base/zero$zero")" \
    -v q="$(step_s "$base/quick$zero")" 'BEGIN {
    m = b * 8 / r / 1e3
    printf "zero %d: computation %.2f s, communication %.2f s (%.1f MB at %d Mbit/s, %.2f of computation), step %.2f s: hidden %.0f %%; a step with a link of 10 Gbit/s %.2f s\n",
      z, c, m, b / 1e6, r / 1e3, m / c, s, 100 * (c + m - s) / (m < c ? m : c), q }'
done
