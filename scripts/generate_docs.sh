#!/bin/bash
# Writes the parts of docs/ that the program knows best. A test fails while they are out of date.
# usage: scripts/generate_docs.sh     (needs build/tessera)
set -eu
cd "$(dirname "$0")/.."
build/tessera config explain --markdown >docs/configuration.md.part
mv docs/configuration.md.part docs/configuration.md
echo "docs/configuration.md written"
build/tessera compile --passes >docs/passes.md.table
# The table of passes is the one that starts with this line.
awk -v table=docs/passes.md.table '
  /^\| pass \| level \| when \|/ { while ((getline line < table) > 0) print line; skips = 1 }
  !/^\|/ { skips = 0 }
  !skips { print }' docs/passes.md >docs/passes.md.part
rm docs/passes.md.table
mv docs/passes.md.part docs/passes.md
echo "docs/passes.md written"
