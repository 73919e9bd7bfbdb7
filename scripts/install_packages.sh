#!/bin/bash
# Installs the Debian packages that are missing, and nothing where all are there.
# usage: scripts/install_packages.sh [build] [quickstart] [test] [check] [fuzz] [bench]   (default: build)
set -eu

packages_for() {
  case $1 in
    # libdnnl-dev's CMake file asks for OpenCL and does not depend on it.
    build) echo g++ cmake ninja-build pkg-config libdnnl-dev ocl-icd-opencl-dev libhwy-dev libcli11-dev libyaml-cpp-dev \
      nlohmann-json3-dev libspdlog-dev libfmt-dev libutf8proc-dev libsimdjson-dev libzstd-dev \
      zlib1g-dev libxxhash-dev libsentencepiece-dev \
      libopenmpi-dev openmpi-bin libeigen3-dev ccache mold ;;
    quickstart) echo dict-gcide xz-utils ;;
    test) echo libgtest-dev python3 ;;
    check) echo python3 git clang-format clang-tidy universal-ctags ;;
    fuzz) echo clang llvm libomp-dev libclang-rt-dev ;;
    bench) echo libbenchmark-dev libopenblas-dev python3-venv time ;;
    *) echo "install_packages.sh: there is no group '$1'. Known: build quickstart test check fuzz bench" >&2
       exit 2 ;;
  esac
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c2)" = i ]; }

missing=()
for group in "${@:-build}"; do
  list=$(packages_for "$group")
  for package in $list; do installed "$package" || missing+=("$package"); done
done
[ ${#missing[@]} = 0 ] && exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing: ${missing[*]}" >&2
    echo "Ask someone who may: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >/dev/null
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" </dev/null >/dev/null
