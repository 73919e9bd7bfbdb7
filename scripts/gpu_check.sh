#!/bin/bash
# Proves the CUDA side on a machine with a GPU, in parts that can be resumed: a part that is done is
# not run again until its line is taken out of the report.
# usage: scripts/gpu_check.sh [-l] [PART…]   in a checkout with build/, or in a gpu_bundle folder
#   -l  lists the parts
# environment: GPU_REPORT (default gpu_report.txt), GPU_PART_S (seconds a part may take, default 470),
#   GPU_BENCH_KEYS (more keys of the benches' run files, as model.layers=2)
set -u
here=$(cd "$(dirname "$0")" && pwd)
export system_libraries=${LD_LIBRARY_PATH:-}
libraries=$system_libraries
if [ -f "$here/programs.tar.gz" ]; then
  cd "$here" || exit 1
  [ -d bin ] || tar -xzf programs.tar.gz || exit 1
  program=$PWD/bin/tessera tests=bin runs=gpu_runs.sh peer=$PWD/bench_peer_device.py
  libraries=$here/lib:$libraries
  # The bundle's Open MPI, where the machine has none, is told where it is now.
  if ! command -v mpirun >/dev/null && [ -x bin/mpirun ]; then
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
  peer=$PWD/scripts/bench_peer_device.py
fi
# cuBLASLt of CUDA 13 where the system does not look: the toolkit's, or what Python's packages brought;
# and cuDNN, which the bundle does not carry either, with what it opens.
packages=$(python3 -c 'import sys; print(*(p + "/nvidia/*/lib" for p in sys.path if p.endswith("-packages")))' 2>/dev/null)
for library in libcublasLt.so.13 libcudnn.so.9 libcudart.so.13 libnvrtc.so.13; do
  for folder in /usr/local/cuda*/lib64 $packages; do
    [ -e "$folder/$library" ] && libraries=$libraries:$folder && break
  done
done
export LD_LIBRARY_PATH=$libraries
report=${GPU_REPORT:-gpu_report.txt} limit=${GPU_PART_S:-470}
parts="device rules ops attention kernels training scoring products parity layouts resume offload eval memory sanitizer bandwidth
bench_gpt2 bench_gpt2_xl bench_pythia bench_llama bench_llama_long"
shown=" device attention memory bandwidth bench_gpt2 bench_gpt2_xl bench_pythia bench_llama bench_llama_long "

part_rules() { "$tests/cuda_device_test"; }
part_ops() { "$tests/cuda_ops_test"; }
# cuDNN's attention beside ours. Where there is no cuDNN it is not run, and attention is our own.
part_attention() { "$tests/cuda_attention_test"; }
part_kernels() { "$tests/cuda_kernels_test" && "$tests/cuda_bench_test"; }
part_training() { "$tests/cuda_training_test" && TESSERA_PROGRAM=$program "$tests/cuda_loop_test"; }
part_scoring() { "$tests/cuda_eval_test"; }
part_products() { "$tests/cuda_products_test"; }
part_sanitizer() {
  command -v compute-sanitizer >/dev/null || return 77
  compute-sanitizer --error-exitcode 1 "$tests/cuda_kernels_test" &&
    compute-sanitizer --tool racecheck --error-exitcode 1 "$tests/cuda_kernels_test"
}

if [ "${1:-}" = -l ]; then
  echo $parts
  exit 0
fi
touch "$report"
# A skipped test says nothing of the device, so it is "not run".
judge() {  # STATUS LOG
  if [ "$1" = 124 ]; then echo "NOT FINISHED in $limit s"
  elif [ "$1" = 77 ]; then echo "NOT RUN: a tool is missing"
  elif [ "$1" != 0 ]; then echo "FAILED ($1)"
  elif grep -q 'SKIPPED' "$2"; then echo "NOT RUN: $(grep -m1 -i 'no CUDA\|without CUDA\|no cuDNN' "$2")"
  else echo "passed"; fi
}
export program tests runs peer
export -f part_rules part_ops part_attention part_kernels part_training part_scoring part_products part_sanitizer
bad=0
for part in ${*:-$parts}; do
  if grep -q "^$part: passed" "$report"; then
    echo "$part: done before"
    continue
  fi
  log=$(mktemp)
  begin=$(date +%s)
  timeout "$limit" bash -c ". ./$runs && part_$part" >"$log" 2>&1
  verdict=$(judge $? "$log")
  # What it said before goes with its line.
  sed -i "/^$part: /,/^[^ ]/{/^$part: /d;/^ /d}" "$report"
  echo "$part: $verdict, $(($(date +%s) - begin)) s" | tee -a "$report"
  case $verdict in
    passed*) case $shown in *" $part "*) sed 's/^/  /' "$log" | tee -a "$report" ;; esac ;;
    *) tail -30 "$log"; bad=1 ;;
  esac
  rm -f "$log"
done
for part in $parts; do
  grep -q "^$part: " "$report" || { echo "$part: NOT RUN" | tee -a "$report"; bad=1; }
done
exit $bad
