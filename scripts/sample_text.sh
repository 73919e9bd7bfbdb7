# shellcheck shell=bash
# Sourced by scripts that need some megabytes of English: sets `text` to a plain text file.
#   sample_text FOLDER [FILE]     FILE, or gcide (Debian's dict-gcide, 40 MB) unpacked into FOLDER once
sample_text() {
  text=${2:-}
  [ -n "$text" ] && { [ -r "$text" ] || { echo "$text: cannot be read" >&2; return 1; }; return 0; }
  text=$1/gcide.txt
  [ -s "$text" ] && return 0
  local packed=/usr/share/dictd/gcide.dict.dz
  [ -r "$packed" ] || {
    echo "no text: give a file, or install Debian's dictionary:  apt-get install dict-gcide" >&2
    return 1
  }
  mkdir -p "$1" && gzip -dc <"$packed" >"$text.part" && mv "$text.part" "$text"
}
