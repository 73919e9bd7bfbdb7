#!/bin/bash
# Compares our byte-pair encoding and training with tiktoken's and Hugging Face's, on one thread, over 40 MB of
# English: scripts/bench_tokenizer.py with the environment it needs. Needs build/tessera.
# usage: scripts/bench_tokenizer.sh TOKENIZER.json [TEXT] [TURNS]
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: scripts/bench_tokenizer.sh TOKENIZER.json [TEXT] [TURNS]" >&2; exit 2; }
. scripts/peer_environment.sh
. scripts/sample_text.sh
sample_text build/text "${2:-}"
"$peer/bin/python" scripts/bench_tokenizer.py "$1" "$text" "${3:-3}"
