#!/bin/bash
# Writes the parts of docs/ that the program knows best. A test fails while they are out of date.
# usage: scripts/generate_docs.sh     (needs build/tessera)
set -eu
cd "$(dirname "$0")/.."
build/tessera config explain --markdown >docs/configuration.md.part
mv docs/configuration.md.part docs/configuration.md
echo "docs/configuration.md written"
