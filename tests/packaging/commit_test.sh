#!/bin/bash
# The commit that the program reports: the given one, or Git's; none in a folder without Git.
# usage: commit_test.sh SOURCE
set -eu
script=$1/cmake/commit.cmake
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() {  # COMMIT SOURCE EXPECTED
  cmake -DOUT="$work/commit.cc" -DSOURCE="$2" -DCOMMIT="$1" -P "$script"
  grep -qF "commit() { return \"$3\"; }" "$work/commit.cc" || {
    echo "commit_test: with '$1' in $2: expected '$3' in:" >&2
    cat "$work/commit.cc" >&2
    exit 1
  }
}

mkdir "$work/plain" "$work/git"
export GIT_CEILING_DIRECTORIES=$work
expect "" "$work/plain" ""
expect 0123456789ab "$work/plain" 0123456789ab
command -v git >/dev/null || exit 0
git -C "$work/git" init -q
git -C "$work/git" -c user.name=t -c user.email=t@localhost commit -q --allow-empty -m first
expect "" "$work/git" "$(git -C "$work/git" rev-parse --short=12 HEAD)"
expect 0123456789ab "$work/git" 0123456789ab
