#!/bin/bash
# How much of the communication hides behind computation: two ranks of one thread on two hosts
# (network namespaces) with a link so slow that communication alone takes about as long as
# computation alone.
#   computation    two ranks at once that share nothing, each with half of the batch
#   communication  the bytes of a step that left a host, by its link's counter, at the link's rate
#   hidden = (computation + communication − step) / the smaller of the two
# usage: scripts/bench_overlap.sh TESSERA [RATE_MBIT [STEPS]]      exit 77: this machine does not allow it
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
tessera=$(realpath "$1")
rate=${2:-320}
steps=${3:-8}
. "$here/tests/cluster/hosts.sh"
. "$here/tests/cluster/small_run.sh"
hosts_possible || { echo "skipped: $why"; exit 77; }
hosts_up 2
printf 'n01 slots=1\nn02 slots=1\n' >"$hosts_folder/hosts"
base=$hosts_folder/base
small_run "$base" "$tessera" || exit 1
keys=(model.layers=12 model.hidden=512 model.heads=8 model.vocabulary=8192 model.context=256
  data.sequence_length=256 batch.micro=4 schedule.steps="$steps" checkpoint.every_steps=0)

# The median time of a step but for the first two, of a run directory, in seconds.
step_s() {
  sed -n 's/.*"step_s":\([^,}]*\).*/\1/p' "$1/metrics.jsonl" | tail -n +3 | sort -g |
    awk '{ t[NR] = $1 } END { printf "%.3f", NR % 2 ? t[(NR + 1) / 2] : (t[NR / 2] + t[NR / 2 + 1]) / 2 }'
}
alone() {  # FOLDER: one rank of its own
  "$tessera" train "$base/run.yaml" "${keys[@]}" layout.data=1 batch.global=4 run.directory="$1" >"$1.out" 2>&1
}
together() {  # FOLDER key=value…
  local folder=$1
  shift
  "$tessera" launch "$base/run.yaml" -n 2 --hosts "$hosts_folder/hosts" --address "$hosts_net.1" --more "$hosts_mpi" \
    "${keys[@]}" layout.data=2 batch.global=8 run.directory="$folder" "$@" >"$folder.out" 2>&1 || cat "$folder.out"
}

alone "$base/a" & alone "$base/b" & wait
compute=$(awk -v a="$(step_s "$base/a")" -v b="$(step_s "$base/b")" 'BEGIN { print (a > b ? a : b) }')
hosts_limit "${rate}mbit"
for overlap in 0 1; do
  before=$(hosts_bytes n02)
  together "$base/overlap$overlap" layout.overlap=$overlap
  bytes=$((($(hosts_bytes n02) - before) / steps))
  awk -v o=$overlap -v c="$compute" -v b=$bytes -v r="$rate" -v s="$(step_s "$base/overlap$overlap")" 'BEGIN {
    m = b * 8 / r / 1e6
    printf "overlap %d: computation %.2f s, communication %.2f s (%.1f MB at %d Mbit/s, %.2f of computation), step %.2f s: hidden %.0f %%\n",
      o, c, m, b / 1e6, r, m / c, s, 100 * (c + m - s) / (m < c ? m : c) }'
done
