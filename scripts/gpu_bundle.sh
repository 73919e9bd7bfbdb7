#!/bin/bash
# Makes a folder for a machine with a GPU and no tools: the CUDA tests, the program and the shared
# libraries that a bare machine lacks (the driver's, cuBLASLt and libc apart), packed;
# gpu_check.sh there unpacks them.
# usage: scripts/gpu_bundle.sh [FOLDER]   (default: build/gpu_bundle; at most 60 MB)
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/gpu_bundle}
tests="cuda_ops_test cuda_kernels_test cuda_training_test cuda_eval_test cuda_products_test"

if ! grep -q '^CMAKE_CUDA_ARCHITECTURES:' build/CMakeCache.txt 2>/dev/null; then
  echo "gpu_bundle.sh: build/ is not configured for CUDA. Install the toolkit, then:" >&2
  echo "  cmake --preset release -G Ninja && ninja -C build tessera $tests" >&2
  exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/bin" "$folder/lib" "$folder/configs"
cp build/tessera "$folder/bin/"
for t in $tests; do cp "build/tests/cuda/$t" "$folder/bin/"; done
strip "$folder"/bin/*
cp scripts/gpu_check.sh scripts/gpu_runs.sh "$folder/"
cp -r configs/recipes "$folder/configs/"
# What every system has is left out, and so is what the GPU's machine must bring itself.
for f in "$folder"/bin/*; do ldd "$f"; done | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda|libcublas[^/]*)\.so' |
  while read -r library; do cp -L "$library" "$folder/lib/"; done
tar -C "$folder" -czf "$folder/programs.tar.gz" bin lib
rm -r "$folder/bin" "$folder/lib"
kib=$(du -sk "$folder" | cut -f1)
echo "$folder: $((kib / 1024)) MB"
if [ "$kib" -gt $((60 * 1024)) ]; then
  echo "gpu_bundle.sh: more than 60 MB" >&2
  exit 1
fi
