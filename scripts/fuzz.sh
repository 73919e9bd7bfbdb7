#!/bin/bash
# Fuzzes the readers with libFuzzer under ASan and UBSan, from the seeds in tests/fuzz/corpus, and
# prints the line coverage of each reader. Finds stay in build-fuzz/finds/NAME.
# usage: scripts/fuzz.sh [NAME …]     RUNS=1000000 a reader, SECONDS_EACH=0 (no limit), TIMEOUT=10 s an input,
#        MAX_LEN=1048576 bytes: inputs begin small and grow up to it, so that time or memory that is not
#        proportional to an input is found
set -eu
cd "$(dirname "$0")/.."
scripts/install_packages.sh build test fuzz
cmake --preset fuzz >/dev/null
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cd build-fuzz/fuzz && printf '%s\n' *.reads | sed 's/\.reads$//')
cmake --build build-fuzz -j "$(nproc)" --target "${names[@]/%/_fuzz}"

failed=0
for name in "${names[@]}"; do
  here=build-fuzz/finds/$name
  mkdir -p "$here/corpus"
  program=build-fuzz/tests/fuzz/${name}_fuzz
  echo "== $name: ${RUNS:-1000000} runs"
  LLVM_PROFILE_FILE="$here/profile.raw" "$program" -runs="${RUNS:-1000000}" \
    -max_total_time="${SECONDS_EACH:-0}" -timeout="${TIMEOUT:-10}" -rss_limit_mb=2048 -max_len="${MAX_LEN:-1048576}" -len_control=100 \
    -artifact_prefix="$here/" "$here/corpus" "tests/fuzz/corpus/$name" >"$here/log" 2>&1 || {
      failed=1
      tail -30 "$here/log"
    }
  tail -1 "$here/log"
  mapfile -t reads <"build-fuzz/fuzz/$name.reads"
  if [ -s "$here/profile.raw" ] && [ -n "${reads[0]}" ]; then
    llvm-profdata merge -sparse "$here/profile.raw" -o "$here/profile"
    llvm-cov report "$program" -instr-profile="$here/profile" -show-region-summary=false \
      -show-branch-summary=false "${reads[@]}" | grep -vE '^-+$'
  fi
done
exit $failed
