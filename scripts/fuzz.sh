#!/bin/bash
# Feeds broken files to every reader: libFuzzer with AddressSanitizer and UBSan, from the valid seeds
# in tests/fuzz/corpus. Prints runs and the line coverage of the reader's own source, and fails if a
# run crashes, hangs or leaks, or the coverage stays below 80 %.
#
# usage: scripts/fuzz.sh [-n RUNS] [-k] [TARGET…]     TARGET as in tests/fuzz/CMakeLists.txt; default: all
#   -n RUNS   runs a target (default 1000000)
#   -k        keep new inputs that reach new code in tests/fuzz/corpus (minimised)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=1000000 keep=
while getopts n:k option; do
  case $option in
    n) runs=$OPTARG ;;
    k) keep=1 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))

# The sources whose coverage counts: the line "// covers: FILE…" of the target.
sources_of() { sed -n "s|^// covers: ||p" "tests/fuzz/$1.cc"; }

build=build/fuzz
cmake -S . -B $build -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release \
  -DTESSERA_FUZZ=ON -DTESSERA_TESTS=OFF -DTESSERA_SANITIZE=fuzzer-no-link,address,undefined \
  -DCMAKE_CXX_FLAGS="-fprofile-instr-generate -fcoverage-mapping" >/dev/null
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n 's/^add_fuzz(\([a-z0-9_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
ninja -C $build "${targets[@]}"

version() { command -v "$1-14" || command -v "$1"; }
failed=0
for target in "${targets[@]}"; do
  seeds=tests/fuzz/corpus/$target work=$build/corpus/$target profile=$build/$target.profraw
  mkdir -p "$work" "$build/found"
  log=$build/$target.log
  if ! LLVM_PROFILE_FILE=$profile "$build/tests/fuzz/$target" -runs="$runs" -max_len=4096 -timeout=10 \
    -rss_limit_mb=2048 -artifact_prefix="$build/found/$target-" "$work" "$seeds" >"$log" 2>&1; then
    tail -40 "$log"
    echo "$target: FAILED; the input is $(ls -t "$build"/found/"$target"-* | head -1)"
    failed=1
    continue
  fi
  [ -z "$keep" ] || "$build/tests/fuzz/$target" -merge=1 "$seeds" "$work" >/dev/null 2>&1
  "$(version llvm-profdata)" merge -sparse "$profile" -o "$build/$target.profdata"
  # shellcheck disable=SC2046
  lines=$("$(version llvm-cov)" report "$build/tests/fuzz/$target" -instr-profile="$build/$target.profdata" \
    $(sources_of "$target") | awk '/^TOTAL/ {print $10}')
  echo "$target: $(grep -o 'Done [0-9]* runs in [0-9]* second' "$log")s, clean; line coverage $lines"
  awk -v x="${lines%\%}" 'BEGIN {exit !(x < 80)}' && { echo "$target: below 80 %"; failed=1; }
done
exit $failed
