#!/bin/bash
# Makes the packages of tessera: a relocatable tarball with the shared libraries, a Debian package, and a
# Python wheel with the program. The program has kernels for several kinds of CPU and selects them when it starts.
# usage: scripts/package.sh [BUILD_FOLDER] [OUT] [tarball | deb | wheel]…
#        (default: build, BUILD_FOLDER/packages, all three; what they need: scripts/install_packages.sh package)
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
mkdir -p "${2:-$build/packages}"
out=$(cd "${2:-$build/packages}" && pwd)
kinds=("${@:3}")
[ ${#kinds[@]} -gt 0 ] || kinds=(tarball deb wheel)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

missing() { echo "package.sh: needs $1. Install it: scripts/install_packages.sh package" >&2; exit 1; }

pack() {  # GENERATOR COMPONENTS HAS_TOP_FOLDER OUT
  cpack --config "$build/CPackConfig.cmake" -G "$1" -B "$4" -D "CPACK_COMPONENTS_ALL=$2" \
    -D "CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY=$3" >/dev/null
  rm -rf "$4/_CPack_Packages"
}

tarball() { pack TGZ "program;libraries" ON "${1:-$out}"; }

deb() {
  command -v dpkg-shlibdeps >/dev/null || missing dpkg-dev
  command -v file >/dev/null || missing file
  pack DEB program OFF "$out"
}

# The wheel has the tarball's files in tessera/files, so that the program finds its libraries.
wheel() {
  local files=$scratch/wheel/tessera/files
  tarball "$scratch"
  cp -r python "$scratch/wheel"
  mkdir "$files"
  tar -xzf "$scratch"/tessera-*.tar.gz --strip-components=1 -C "$files"
  # A wheel cannot contain symbolic links, so each library would be in it several times. Keep the name that programs load.
  local library name
  for library in "$files"/lib/tessera/*; do
    [ -L "$library" ] && continue
    name=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
    if [ -n "$name" ] && [ "$name" != "${library##*/}" ]; then mv -f "$library" "$files/lib/tessera/$name"; fi
  done
  find "$files/lib/tessera" -type l -delete
  rm -rf "$files/share/doc" "$files/share/man"
  "$build/tessera" --version | cut -d' ' -f2 >"$scratch/wheel/VERSION"
  cp README.md "$scratch/wheel/"
  python3 -m pip wheel --quiet --no-deps --wheel-dir "$out" "$scratch/wheel"
}

for kind in "${kinds[@]}"; do
  case $kind in
    tarball | deb | wheel) ;;
    *) echo "package.sh: unknown package '$kind', expected tarball, deb or wheel" >&2; exit 2 ;;
  esac
done
cmake --build "$build" --target tessera >/dev/null
for kind in "${kinds[@]}"; do "$kind"; done
