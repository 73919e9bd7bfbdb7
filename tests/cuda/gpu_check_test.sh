#!/bin/bash
# Tests scripts/gpu_check.sh without a GPU: its order, its budgets, its logs.
# usage: gpu_check_test.sh SOURCE_FOLDER [PROGRAM]   (PROGRAM: as gpu_bundle.sh takes it)
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "gpu_check_test: $*" >&2; exit 1; }

# A checkout whose test programs do what the test asks.
mkdir -p "$work/scripts" "$work/build/tests/cuda"
cp "$source"/scripts/gpu_*.sh "$work/scripts/"
program() {  # NAME LINE…
  local name=$1
  shift
  printf '#!/bin/bash\n%s\n' "$*" >"$work/build/tests/cuda/$name"
  chmod +x "$work/build/tests/cuda/$name"
}
program cuda_device_test 'for i in $(seq 100); do echo "line $i"; done; exit 3'
program cuda_ops_test 'sleep 30'
program cuda_kernels_test 'echo kernels ran; exit 1'
program cuda_bench_test 'echo bench ran'
check() { (cd "$work" && GPU_REPORT=$work/r.txt "$@" scripts/gpu_check.sh $parts) >"$work/out" 2>&1; }

case $("$source/scripts/gpu_check.sh" -l) in
  "device attention bandwidth bench_gpt2_xl"*) ;;
  *) fail "the device, attention, bandwidth and a bench are not first" ;;
esac
parts=rules check env
grep -q 'line 1$' "$work/r_logs/rules.log" && grep -q 'line 100$' "$work/r_logs/rules.log" ||
  fail "the log of a part that failed is not whole"
grep -q '^rules: FAILED (3)' "$work/r.txt" || fail "the failure is not in the report"
parts=kernels check env
grep -q 'bench ran' "$work/r_logs/kernels.log" || fail "one failure keeps the next test from running"
grep -q '^kernels: FAILED' "$work/r.txt" || fail "a failure was forgotten"
parts=ops check env GPU_PART_S=1
grep -q '^ops: NOT FINISHED in 1 s' "$work/r.txt" || fail "a part has no limit"
parts="ops rules" check env GPU_TOTAL_S=6
grep -q 'ops: NOT FINISHED in [56] s' "$work/out" && grep -q 'rules and what follows' "$work/out" ||
  fail "all parts together have no limit: $(cat "$work/out")"

# A bundle: its own Open MPI where the machine has another, its libraries for its programs alone, and
# the sanitizer on the program itself, a test at a time.
bundle=$work/bundle
mkdir -p "$bundle/bin" "$bundle/lib" "$work/machine"
cp "$source"/scripts/gpu_*.sh "$bundle/"
printf '#!/bin/bash\ncommand -v mpirun; echo "libraries $LD_LIBRARY_PATH"\n' >"$bundle/bin/cuda_device_test"
printf '#!/bin/bash\nprintf "CudaKernels.\\n  First\\n  Second  # x\\n"\n' >"$bundle/bin/cuda_tests"
printf '#!/bin/bash\necho sanitizer "$@"\n' >"$work/machine/compute-sanitizer"
printf '#!/bin/bash\n' | tee "$bundle/bin/mpirun" "$work/machine/mpirun" >"$bundle/bin/tessera"
chmod +x "$bundle"/bin/* "$work"/machine/*
tar -C "$bundle" -czf "$bundle/programs.tar.gz" bin lib
(cd "$bundle" && PATH=$work/machine:$PATH GPU_REPORT=$work/b.txt ./gpu_check.sh rules sanitizer) >"$work/out" 2>&1
grep -q "^$bundle/bin/mpirun$" "$work/b_logs/rules.log" || fail "not the bundle's mpirun: $(cat "$work/b_logs/rules.log")"
grep '^libraries' "$work/b_logs/rules.log" | grep -q "$bundle/lib" && fail "all programs see the bundle's libraries"
for test in First Second; do
  for tool in memcheck racecheck; do
    grep -q "^sanitizer --tool $tool --error-exitcode 1 bin/cuda_tests --gtest_filter=CudaKernels.$test$" \
      "$work/b_logs/sanitizer.log" || fail "$tool does not get the program and $test"
  done
done
if [ -n "${2:-}" ]; then
  # shellcheck disable=SC2016
  readelf -d "$2" | grep -q 'RPATH.*\$ORIGIN/../lib' || fail "$2 does not find the bundle's libraries by itself"
fi
echo passed
