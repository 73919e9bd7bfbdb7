#!/bin/bash
# Installs the Debian packages that are missing, and nothing where all are there.
# usage: scripts/install_packages.sh [build] [package] [quickstart] [test] [check] [fuzz] [bench]   (default: build)
set -eu

packages_for() {
  case $1 in
    # libdnnl-dev's CMake file asks for OpenCL and does not depend on it.
    build) echo g++ cmake ninja-build pkg-config libdnnl-dev ocl-icd-opencl-dev libhwy-dev libcli11-dev libyaml-cpp-dev \
      nlohmann-json3-dev libspdlog-dev libfmt-dev libutf8proc-dev libpcre2-dev libsimdjson-dev libzstd-dev \
      zlib1g-dev libxxhash-dev libsentencepiece-dev libre2-dev \
      libopenmpi-dev openmpi-bin libeigen3-dev libjs-dygraphs ccache mold ;;
    # python3 writes the man page and the completions; pip makes the wheel.
    package) echo dpkg-dev file python3 python3-pip ;;
    quickstart) echo dict-gcide xz-utils ;;
    test) echo libgtest-dev libbenchmark-dev python3 python3-venv dpkg-dev file dict-gcide procps curl ;;
    check) echo python3 git clang-format clang-tidy universal-ctags chromium ;;
    fuzz) echo clang llvm libomp-dev libclang-rt-dev ;;
    bench) echo libbenchmark-dev libopenblas-dev python3-venv time ;;
    *) echo "install_packages.sh: there is no group '$1'. Known: build package quickstart test check fuzz bench" >&2
       exit 2 ;;
  esac
}

# The headers of cuDNN's frontend, which no Debian package has: where there is nvcc, and once. Without
# them the build uses only our own attention.
cudnn_frontend() {
  local at folder version wheel sum scratch
  at=$(cd "$(dirname "$0")" && pwd)
  { read -r version && read -r wheel && read -r sum; } < <(grep -v '^#' "$at/cudnn_frontend.txt")
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/cudnn-frontend-$version
  [ -e "$folder/include/cudnn_frontend.h" ] && return
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || return 0
  scratch=$(mktemp -d)
  if python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --implementation cp \
      --platform manylinux_2_28_x86_64 -d "$scratch" "nvidia-cudnn-frontend==$version" >"$scratch/log" 2>&1 &&
      echo "$sum  $scratch/$wheel" | sha256sum -c --quiet; then
    mkdir -p "$folder"
    python3 -m zipfile -e "$scratch/$wheel" "$scratch/all"
    cp -r "$scratch/all/include" "$folder/"
    echo "cuDNN's frontend $version: $folder"
  else
    tail -2 "$scratch/log" >&2
    echo "cuDNN's frontend $version did not come from PyPI: attention will be our own" >&2
  fi
  rm -rf "$scratch"
}

installed() { [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c2)" = i ]; }

missing=()
groups=("${@:-build}")
for group in "${groups[@]}"; do
  list=$(packages_for "$group")
  for package in $list; do installed "$package" || missing+=("$package"); done
done
wants_test() { case " ${groups[*]} " in *" test "*) return 0 ;; *) return 1 ;; esac; }
if [ ${#missing[@]} = 0 ]; then
  if wants_test; then cudnn_frontend; fi
  exit 0
fi

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
if wants_test; then cudnn_frontend; fi
