#!/bin/bash
# Makes the packages and tries them: the tarball in a root that contains only Debian's libc, bash, coreutils
# and findutils; the files of the Debian package; the wheel in a virtual environment. Exit code 77: skipped.
# usage: package_test.sh BUILD_FOLDER
set -eu
cd "$(dirname "$0")/../.."
build=$1
skip() { echo "skipped: $*"; exit 77; }
fail() { echo "package_test: $*" >&2; exit 1; }
command -v dpkg-shlibdeps >/dev/null || skip "dpkg-dev is not installed"
[ "$(id -u)" = 0 ] || skip "chroot needs root"

work=$(mktemp -d)
trap 'mountpoint -q "$work/root/proc" && umount "$work/root/proc"; rm -rf "$work"' EXIT
scripts/package.sh "$build" "$work/packages"

# A root made of the files of installed packages.
mkdir -p "$work/root/proc" "$work/root/dev" "$work/root/tmp"
dpkg -L libc6 bash coreutils findutils libtinfo6 libselinux1 libpcre2-8-0 libacl1 libattr1 libgmp10 |
  while read -r file; do if [ -f "$file" ]; then echo "$file"; fi; done |
  tar -C / -ch --no-recursion -T - 2>/dev/null | tar -C "$work/root" -x
mount -t proc proc "$work/root/proc" 2>/dev/null || skip "mounting /proc is not permitted"
touch "$work/root/dev/null" && chmod 666 "$work/root/dev/null"
tar -xzf "$work"/packages/tessera-*.tar.gz -C "$work/root" --one-top-level=tessera --strip-components=1
SECONDS=0
chroot "$work/root" /usr/bin/env -i PATH=/bin:/usr/bin HOME=/tmp bash -c \
  'mkdir /tmp/first && cd /tmp/first && /tessera/share/tessera/examples/first_run.sh' >"$work/log" 2>&1 || {
    tail -20 "$work/log"
    fail "the first run failed in a bare root"
  }
echo "first_run.sh: $SECONDS s"
metrics=$work/root/tmp/first/runs/first/metrics.jsonl
losses=$(grep -o '"loss":[0-9.]*' "$metrics" | cut -d: -f2)
awk -v first="$(echo "$losses" | head -1)" -v last="$(echo "$losses" | tail -1)" \
  'BEGIN { print "loss " first " to " last; exit !(last < first - 1) }' || fail "the loss did not fall"

# The Debian package.
dpkg-deb -f "$work"/packages/*.deb Depends | grep -q libdnnl || fail "the Debian package does not depend on libdnnl"
dpkg-deb -x "$work"/packages/*.deb "$work/debian"
for file in bin/tessera share/man/man1/tessera.1 share/bash-completion/completions/tessera \
  share/zsh/vendor-completions/_tessera share/fish/vendor_completions.d/tessera.fish \
  share/tessera/examples/first_run.sh share/doc/tessera/installing.md; do
  [ -f "$work/debian/usr/$file" ] || fail "the Debian package has no /usr/$file"
done
[ "$(ls "$work/debian")" = usr ] || fail "the Debian package has files outside /usr: $(ls "$work/debian")"

# The slim images of Debian exclude documents; packaging/dpkg_include brings back those of tessera.
mkdir -p "$work/slim/var/lib/dpkg/"{info,updates}
touch "$work/slim/var/lib/dpkg/status"
mapfile -t includes < <(sed -n 's/^path-include /--path-include=/p' packaging/dpkg_include)
dpkg --root="$work/slim" --force-depends --path-exclude='/usr/share/doc/*' --path-exclude='/usr/share/man/*' \
  "${includes[@]}" --unpack "$work"/packages/*.deb >"$work/log" 2>&1 || {
    tail -5 "$work/log"
    fail "dpkg cannot unpack the package as in a slim image"
  }
for file in doc/tessera/installing.md man/man1/tessera.1; do
  [ -f "$work/slim/usr/share/$file" ] || fail "packaging/dpkg_include leaves out /usr/share/$file"
done

# Completions, in the shells that are installed, and the man page.
shells=$work/debian/usr/share
completed=$(bash -c '. "$1"; COMP_WORDS=(tessera train --from); COMP_CWORD=2; _tessera; echo "${COMPREPLY[@]}"' \
  bash "$shells/bash-completion/completions/tessera")
[ "$completed" = --from-step ] || fail "bash completes 'tessera train --from' with '$completed'"
if command -v zsh >/dev/null; then
  zsh -n "$shells/zsh/vendor-completions/_tessera" || fail "zsh cannot read its completions"
fi
if command -v fish >/dev/null; then
  completed=$(fish --no-config -c "source $shells/fish/vendor_completions.d/tessera.fish; complete -C 'tessera trai'")
  [[ $completed == train* ]] || fail "fish completes 'tessera trai' with '$completed'"
fi
if LC_ALL=C grep -q '[^[:print:][:space:]]' "$shells/man/man1/tessera.1"; then fail "the man page is not ASCII"; fi

# The wheel, with the NumPy that is installed or reachable.
[ "$(python3 -m zipfile -l "$work"/packages/*.whl | grep -c libdnnl)" = 1 ] || fail "the wheel contains libdnnl twice"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$work"/packages/*.whl 2>"$work/pip" || skip "no NumPy: $(tail -1 "$work/pip")"
"$work/venv/bin/tessera" --version
"$work/venv/bin/python" tests/packaging/package_test.py "$work/root/tmp/first"
