#!/bin/bash
# Builds ./build with as many jobs as cores and memory allow (a job may need 1.5 GiB).
# usage: scripts/build.sh [TARGET …]
set -eu
cd "$(dirname "$0")/.."
cores=$(nproc)
free_kib=$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)
jobs=$(( free_kib / 1572864 ))
jobs=$(( jobs < 1 ? 1 : jobs > cores ? cores : jobs ))
exec cmake --build build -j "$jobs" ${1:+--target "$@"}
