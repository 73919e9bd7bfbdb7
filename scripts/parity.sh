#!/bin/bash
# Compares with PyTorch: scripts/parity.py with the environment it needs. Needs build/tessera.
# usage: scripts/parity.sh [--text FILE] [--family NAME] [--skip-bf16 | --only-bf16] [--adafactor]
#          [--keep FOLDER] [--threads N]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peer_environment.sh
. scripts/sample_text.sh
arguments=("$@")
case " $* " in
  *" --text "* | *" --text="* | *" --help "*) ;;
  *)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    sample_text build/text
    head -c 3000000 "$text" | iconv -f utf-8 -t utf-8 -c >"$folder/sample.txt" || true
    arguments+=(--text "$folder/sample.txt")
    ;;
esac
"$peer/bin/python" scripts/parity.py "${arguments[@]}"
