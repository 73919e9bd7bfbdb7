#!/bin/bash
# Fuzzes the readers with libFuzzer under ASan and UBSan, from the seeds in tests/fuzz/corpus, and
# prints the line coverage of each reader. Finds stay in build-fuzz/finds/NAME.
# usage: scripts/fuzz.sh [NAME …]     RUNS=1000000 a reader, SECONDS_EACH=0 (no limit), TIMEOUT=10 s an input,
#        MAX_LEN=1048576 bytes (relay: 8192): inputs begin small and grow up to it, so that time or memory
#        that is not proportional to an input is found
set -eu
cd "$(dirname "$0")/.."
scripts/install_packages.sh build test fuzz
cmake --preset fuzz >/dev/null
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cd build-fuzz/fuzz && printf '%s\n' *.reads | sed 's/\.reads$//')
cmake --build build-fuzz -j "$(nproc)" --target "${names[@]/%/_fuzz}"

# Short stacks of allocations and a small quarantine: most of the time of a run is ASan's.
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=8:quarantine_size_mb=32}

# The largest input of a reader. Lines of ranks have at most 1,000 bytes in relay_fuzz.
longest() { [ "$1" = relay ] && echo 8192 || echo 1048576; }

# Prints the lines covered of the sources that a reader names. Compared by the end of the path: with
# ccache's base_dir the program has paths relative to the build folder.
coverage() {  # PROGRAM PROFILE SOURCE…
  llvm-cov export "$1" -instr-profile="$2" -format=lcov -summary-only | awk -v wanted="${*:3}" '
    BEGIN { split(wanted, sources, " ") }
    /^SF:/ { file = ""; for (i in sources) if (substr($0, length($0) - length(sources[i])) == "/" sources[i]) file = sources[i] }
    /^LF:/ { lines = substr($0, 4) }
    /^LH:/ && file != "" { hit = substr($0, 4); printf "%-40s %5d of %5d lines\n", file, hit, lines; all += lines; seen += hit }
    END { if (all > 0) printf "%-40s %5d of %5d lines covered, %.1f %%\n", "in all", seen, all, 100 * seen / all }'
}

failed=0
for name in "${names[@]}"; do
  here=build-fuzz/finds/$name
  mkdir -p "$here/corpus"
  program=build-fuzz/tests/fuzz/${name}_fuzz
  echo "== $name: ${RUNS:-1000000} runs"
  LLVM_PROFILE_FILE="$here/profile.raw" "$program" -runs="${RUNS:-1000000}" \
    -max_total_time="${SECONDS_EACH:-0}" -timeout="${TIMEOUT:-10}" -rss_limit_mb=2048 -max_len="${MAX_LEN:-$(longest "$name")}" -len_control=100 \
    -artifact_prefix="$here/" "$here/corpus" "tests/fuzz/corpus/$name" >"$here/log" 2>&1 || {
      failed=1
      tail -30 "$here/log"
    }
  tail -1 "$here/log"
  mapfile -t reads <"build-fuzz/fuzz/$name.reads"
  if [ -s "$here/profile.raw" ] && [ -n "${reads[0]}" ]; then
    llvm-profdata merge -sparse "$here/profile.raw" -o "$here/profile"
    coverage "$program" "$here/profile" "${reads[@]}"
  fi
done
exit $failed
