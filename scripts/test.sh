#!/bin/bash
# Installs what the tests need, builds, and runs them.
# usage: scripts/test.sh [fast|slow|all]   (default: all; fast: less than a minute)
set -eu
cd "$(dirname "$0")/.."

which=${1:-all}
case $which in
  fast|slow) labels=(-L "^$which\$") ;;
  all) labels=() ;;
  *) echo "usage: scripts/test.sh [fast|slow|all]" >&2; exit 2 ;;
esac

scripts/install_packages.sh build test
# The folder may have been set up without tests by quickstart.sh.
cmake --preset release -DTESSERA_TESTS=ON >/dev/null
scripts/build.sh
# Two tests share the cores, so a thread that waits must not spin: that took twenty times as long.
OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(nproc)} OMP_WAIT_POLICY=passive \
  ctest --test-dir build -j2 --output-on-failure --timeout 600 --no-tests=error "${labels[@]}"
