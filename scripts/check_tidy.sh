#!/bin/bash
# clang-tidy (list of checks: .clang-tidy) over the sources that changed since the main branch, or
# over those that are given. Stops after LIMIT_S seconds (default 300) and prints what it left out.
# Needs a built ./build, for sources that the build makes. The commands come from a folder that is only
# configured, build/tidy, in which every source has its own.
# usage: scripts/check_tidy.sh [FILE …]
set -eu
cd "$(dirname "$0")/.."
[ -f build/build.ninja ] || { echo "no build/build.ninja: build first" >&2; exit 1; }
cmake --preset release -B build/tidy -DTESSERA_TESTS=ON -DTESSERA_UNITY=OFF >/dev/null

base=HEAD
for branch in origin/main main HEAD~1; do
  if git rev-parse -q --verify "$branch^{commit}" >/dev/null; then
    base=$(git merge-base "$branch" HEAD || true)
    [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] && break
  fi
  base=HEAD
done

if [ $# -gt 0 ]; then files=("$@"); else
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'tests/*.cc')
fi
in_build=()
for file in "${files[@]}"; do
  if grep -q "\"file\": \"$PWD/$file\"" build/tidy/compile_commands.json; then in_build+=("$file"); fi
done
[ ${#in_build[@]} -gt 0 ] || { echo "clang-tidy: nothing changed"; exit 0; }

end=$(( SECONDS + ${LIMIT_S:-300} ))
check() {
  [ "$SECONDS" -lt "$1" ] || { echo "left out for time: $2"; return 0; }
  # The build's flags are GCC's; clang does not support one of them.
  clang-tidy -p build/tidy --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-sign-conversion "$2" 2>/dev/null
}
failed=0
jobs=$(nproc)
for ((i = 0; i < ${#in_build[@]}; i += jobs)); do
  pids=()
  for file in "${in_build[@]:i:jobs}"; do check $end "$file" & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
done
[ $failed = 0 ] && echo "clang-tidy: ${#in_build[@]} files, all right"
exit $failed
