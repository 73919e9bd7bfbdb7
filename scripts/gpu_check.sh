#!/bin/bash
# Proves the CUDA side on a machine with a GPU, in parts that can be resumed: a part that is done is
# not run again until its line is removed from the report. The parts that matter most come first.
# usage: scripts/gpu_check.sh [-l] [PART…]   in a checkout with build/, or in a gpu_bundle folder
#   -l  lists the parts
# environment: GPU_REPORT (default gpu_report.txt; the full logs of all parts are in the folder of the
#   same name with _logs), GPU_PART_S (seconds for each part, default 470), GPU_TOTAL_S (seconds for
#   this call, default 0: no limit; the parts that do not fit are left for the next call), GPU_BENCH_KEYS
#   (more keys of the benches' run files, for example model.layers=2)
set -u
here=$(cd "$(dirname "$0")" && pwd)
export system_libraries=${LD_LIBRARY_PATH:-}
libraries=$system_libraries
if [ -f "$here/programs.tar.gz" ]; then
  cd "$here" || exit 1
  [ -d bin ] || tar -xzf programs.tar.gz || exit 1
  # The programs find the bundle's libraries by themselves ($ORIGIN/../lib); no other program sees them.
  program=$PWD/bin/tessera tests=bin runs=gpu_runs.sh peer=$PWD/bench_peer_device.py ceilings=$PWD/gpu_ceilings.py
  kernel_tests=bin/cuda_tests
  # Ranks of a bundle are started by its own Open MPI: they are linked with it.
  if [ -x bin/mpirun ]; then
    export PATH=$PWD/bin:$PATH OPAL_PREFIX=$here OPAL_BINDIR=$here/bin OPAL_LIBDIR=$here/lib
    export OPAL_PKGLIBDIR=$here/lib/openmpi OPAL_DATADIR=$here/share OPAL_PKGDATADIR=$here/share/openmpi
    export OMPI_MCA_mca_base_component_path=$here/lib/openmpi
    export PMIX_MCA_mca_base_component_path=$here/lib/pmix PMIX_INSTALL_PREFIX=$here
    # Ranks of one machine need no more of it.
    export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_osc=^ucx
  fi
else
  cd "$here/.." || exit 1
  program=$PWD/build/tessera tests=build/tests/cuda runs=scripts/gpu_runs.sh
  peer=$PWD/scripts/bench_peer_device.py ceilings=$PWD/scripts/gpu_ceilings.py
  kernel_tests=$tests/cuda_kernels_test
fi
# cuBLASLt of CUDA 13 where the system does not look: the toolkit's, or what Python's packages brought;
# and cuDNN, which the bundle does not carry either, with what it opens.
packages=$(python3 -c 'import sys; print(*(p + "/nvidia/*/lib" for p in sys.path if p.endswith("-packages")))' 2>/dev/null)
for library in libcublasLt.so.13 libcudnn.so.9 libcudart.so.13 libnvrtc.so.13 libnccl.so.2; do
  for folder in /usr/local/cuda*/lib64 $packages; do
    [ -e "$folder/$library" ] && libraries=$libraries:$folder && break
  done
done
export LD_LIBRARY_PATH=$libraries
report=${GPU_REPORT:-gpu_report.txt} limit=${GPU_PART_S:-470} total=${GPU_TOTAL_S:-0}
logs=${report%.txt}_logs
parts="device attention bandwidth bench_gpt2_xl timeline
rules ops kernels training scoring products parity parity_cudnn layouts resume offload eval memory
bench_gpt2 bench_pythia bench_llama bench_llama_long sanitizer"
shown=" device attention memory bandwidth timeline parity_cudnn bench_gpt2 bench_gpt2_xl bench_pythia bench_llama bench_llama_long "

part_rules() { "$tests/cuda_device_test"; }
part_ops() { "$tests/cuda_ops_test"; }
# cuDNN's attention next to ours. Where there is no cuDNN it is not run, and attention is our own.
part_attention() { "$tests/cuda_attention_test"; }
part_kernels() {
  local bad=0
  "$tests/cuda_kernels_test" || bad=1
  "$tests/cuda_bench_test" || bad=1
  return $bad
}
part_training() {
  local bad=0
  "$tests/cuda_training_test" || bad=1
  TESSERA_PROGRAM=$program "$tests/cuda_loop_test" || bad=1
  return $bad
}
part_scoring() { "$tests/cuda_eval_test"; }
part_products() { "$tests/cuda_products_test"; }
# Each test of a kernel by itself, since racecheck of all together takes hours. The tool is given the
# program itself: a script between them would be checked in its place.
part_sanitizer() {
  command -v compute-sanitizer >/dev/null || return 77
  local bad=0 tool test status
  for test in $("$kernel_tests" --gtest_filter='CudaKernels.*:CudaUpdates.*' --gtest_list_tests |
    awk '/^[A-Za-z]+\.$/ { suite = $1; next } /^  [A-Za-z0-9_]/ { print suite $1 }'); do
    for tool in memcheck racecheck; do
      timeout "${GPU_SANITIZER_S:-60}" compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$kernel_tests" --gtest_filter="$test"
      status=$?
      echo "$tool of $test: $status (124: not finished)"
      [ $status = 0 ] || [ $bad = 1 ] || { [ $status = 124 ] && bad=124 || bad=1; }
    done
  done
  return $bad
}

if [ "${1:-}" = -l ]; then
  echo $parts
  exit 0
fi
touch "$report"
mkdir -p "$logs"
# A skipped test shows nothing about the device, so it is "not run".
judge() {  # STATUS LOG SECONDS
  if [ "$1" = 124 ]; then echo "NOT FINISHED in $3 s"
  elif [ "$1" = 77 ]; then echo "NOT RUN: a tool is missing"
  elif [ "$1" != 0 ]; then echo "FAILED ($1)"
  elif grep -q 'SKIPPED' "$2"; then echo "NOT RUN: $(grep -m1 -i 'no CUDA\|without CUDA\|no cuDNN' "$2")"
  else echo "passed"; fi
}
report_folder=$(cd "$logs" && pwd)
export program tests runs peer ceilings kernel_tests report_folder
export -f part_rules part_ops part_attention part_kernels part_training part_scoring part_products part_sanitizer
bad=0 start=$(date +%s)
for part in ${*:-$parts}; do
  if grep -q "^$part: passed" "$report"; then
    echo "$part: done before"
    continue
  fi
  seconds=$limit
  if [ "$total" -gt 0 ]; then
    left=$((total - $(date +%s) + start))
    if [ "$left" -lt 5 ]; then
      echo "$part and what follows: the $total s of this call are used up; run the same command again"
      bad=1
      break
    fi
    [ "$left" -lt "$seconds" ] && seconds=$left
  fi
  log=$logs/$part.log
  begin=$(date +%s)
  timeout "$seconds" bash -c ". ./$runs && part_$part" >"$log" 2>&1
  verdict=$(judge $? "$log" "$seconds")
  # The earlier result is removed with its line.
  sed -i "/^$part: /,/^[^ ]/{/^$part: /d;/^ /d}" "$report"
  echo "$part: $verdict, $(($(date +%s) - begin)) s" | tee -a "$report"
  case $verdict in
    passed*) case $shown in *" $part "*) sed 's/^/  /' "$log" | tee -a "$report" ;; esac ;;
    *)
      tail -30 "$log"
      echo "  all of it: $log"
      bad=1
      ;;
  esac
done
for part in $parts; do
  grep -q "^$part: " "$report" || { echo "$part: NOT RUN" | tee -a "$report"; bad=1; }
done
exit $bad
