#!/bin/bash
# Makes a folder for a machine with a GPU and no tools: the CUDA tests, the program, Open MPI for
# several ranks on one GPU, and the shared libraries that a bare machine lacks (the driver's,
# cuBLASLt, cuDNN and libc excepted), packed; gpu_check.sh there unpacks them. The machine needs a libc that is
# not older than the one here.
# usage: scripts/gpu_bundle.sh [FOLDER]   (default: build/gpu_bundle; at most 60 MB)
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/gpu_bundle}
tests="cuda_device_test cuda_ops_test cuda_attention_test cuda_kernels_test cuda_bench_test cuda_training_test cuda_loop_test cuda_eval_test cuda_products_test"

if ! grep -q '^CMAKE_CUDA_ARCHITECTURES:.*90' build/CMakeCache.txt 2>/dev/null; then
  echo "gpu_bundle.sh: build/ is not configured for CUDA and sm_90. Install the toolkit, then:" >&2
  echo "  cmake --preset release -DTESSERA_TESTS=ON -DCMAKE_CUDA_ARCHITECTURES=90" >&2
  exit 1
fi
# shellcheck disable=SC2086
scripts/build.sh tessera cuda_tests $tests >/dev/null
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib/openmpi" "$folder/lib/pmix" "$folder/share" "$folder/configs"
cp build/tessera "$folder/bin/"
cp build/tests/cuda/cuda_tests "$folder/bin/"
cp scripts/gpu_check.sh scripts/gpu_runs.sh scripts/bench_peer_device.py scripts/gpu_ceilings.py "$folder/"
cp -r configs/recipes "$folder/configs/"

# Open MPI: of its components those that ranks of one machine need. Debian's folders.
mpi=/usr/lib/$(uname -m)-linux-gnu
if command -v orterun >/dev/null && [ -d "$mpi/openmpi/lib/openmpi3" ]; then
  # They find libraries by LD_LIBRARY_PATH, which is set for them alone.
  mkdir "$folder/bin/openmpi"
  for tool in orterun orted; do
    cp "$(command -v $tool)" "$folder/bin/openmpi/"
    name=${tool/orterun/mpirun}
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nhere=$(cd "$(dirname "$0")" && pwd)\nLD_LIBRARY_PATH=$here/../lib:$LD_LIBRARY_PATH exec "$here/openmpi/%s" "$@"\n' \
      "$tool" >"$folder/bin/$name"
    chmod +x "$folder/bin/$name"
  done
  for c in "$mpi"/openmpi/lib/openmpi3/mca_*.so; do
    case $c in *ofi.so | *openib.so | *ucx.so | *psm*.so | *slurm.so | *flux.so | *romio*.so | *gridengine.so | *scoll* | *spml* | *sshmem* | *memheap*) ;;
    *) cp "$c" "$folder/lib/openmpi/" ;; esac
  done
  cp "$mpi"/pmix2/lib/pmix/pmix_mca_pcompress_zlib.so "$folder/lib/pmix/" 2>/dev/null || true
  cp -rL /usr/share/openmpi "$folder/share/" 2>/dev/null || true
fi
# Libraries that every system has are left out, and so are those that the GPU's machine must bring itself.
find "$folder/bin" "$folder/lib" -type f | while read -r f; do ldd "$f" 2>/dev/null; done | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda|libcublas[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$folder/lib/"; done
find "$folder/bin" "$folder/lib" -type f ! -name mpirun ! -name orted -exec strip --strip-unneeded {} +
# One program has all tests; those of each name are its suites.
for t in $tests; do
  suites=$("build/tests/cuda/$t" --gtest_list_tests | awk '/^[A-Za-z]+\.$/ { printf "%s*:", $1 }')
  printf '#!/bin/sh\nexec "$(dirname "$0")/cuda_tests" --gtest_filter="%s" "$@"\n' "$suites" >"$folder/bin/$t"
  chmod +x "$folder/bin/$t"
done
tar -C "$folder" -czf "$folder/programs.tar.gz" bin lib share
rm -r "$folder/bin" "$folder/lib" "$folder/share"
kib=$(du -sk "$folder" | cut -f1)
echo "$folder: $((kib / 1024)) MB"
if [ "$kib" -gt $((60 * 1024)) ]; then
  echo "gpu_bundle.sh: more than 60 MB" >&2
  exit 1
fi
