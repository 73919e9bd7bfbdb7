#!/bin/bash
# Fails where clang-format would change a file, and names the places.
# usage: scripts/check_format.sh [--fix]
set -eu
cd "$(dirname "$0")/.."
files=$(git ls-files '*.h' '*.cc' '*.cu' '*.cuh')
if [ "${1:-}" = --fix ]; then
  # shellcheck disable=SC2086
  clang-format -i $files
  exit 0
fi
# shellcheck disable=SC2086
if ! places=$(clang-format --dry-run -Werror $files 2>&1); then
  echo "$places" | sed -n 's/^\([^ :]*:[0-9]*\):[0-9]*: error:.*/\1: not formatted/p' | uniq | head -20
  echo "Fix it with   scripts/check_format.sh --fix" >&2
  exit 1
fi
echo "$(echo "$files" | wc -l) files are formatted"
