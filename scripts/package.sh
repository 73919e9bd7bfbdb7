#!/bin/bash
# Makes the packages of tessera: a relocatable tarball with the shared libraries, a Debian package, and a
# Python wheel with the program. The program has kernels for several kinds of CPU and selects them when it starts.
# usage: scripts/package.sh [BUILD_FOLDER] [OUT]     (default: build, BUILD_FOLDER/packages)
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
mkdir -p "${2:-$build/packages}"
out=$(cd "${2:-$build/packages}" && pwd)
command -v dpkg-shlibdeps >/dev/null || { echo "package.sh: needs dpkg-dev" >&2; exit 1; }
cmake --build "$build" --target tessera >/dev/null
cpack --config "$build/CPackConfig.cmake" -G TGZ -B "$out" -D "CPACK_COMPONENTS_ALL=program;libraries" >/dev/null
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$out" -D CPACK_COMPONENTS_ALL=program >/dev/null
rm -rf "$out/_CPack_Packages"

# The wheel has the tarball's files in tessera/files, so that the program finds its libraries.
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
cp -r python/. "$wheel"
mkdir "$wheel/tessera/files"
tar -xzf "$out"/tessera-*.tar.gz --strip-components=1 -C "$wheel/tessera/files"
rm -rf "$wheel/tessera/files/share/doc" "$wheel/tessera/files/share/man"
"$build/tessera" --version | cut -d' ' -f2 >"$wheel/VERSION"
cp README.md "$wheel/"
python3 -m pip wheel --quiet --no-deps --wheel-dir "$out" "$wheel"
ls -l --block-size=KiB "$out" | awk 'NR > 1 { print $5, $9 }'
