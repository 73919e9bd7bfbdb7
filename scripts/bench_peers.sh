#!/bin/bash
# Our training speed, memory and start over the best of PyTorch's modes: scripts/bench_peers.py with the
# environment it needs. Needs build/tessera.
# usage: scripts/bench_peers.sh [--turns 3] [--ranks 2] [--shape 4x512] [--precision fp32|bf16] [--text FILE] [--json FILE]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peer_environment.sh
. scripts/sample_text.sh
arguments=("$@")
case " $* " in
  *" --text "* | *" --text="* | *" --help "*) ;;
  *)
    sample_text build/text
    arguments+=(--text "$text")
    ;;
esac
"$peer/bin/python" scripts/bench_peers.py "${arguments[@]}"
