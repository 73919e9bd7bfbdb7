#!/bin/bash
# Writes the pages and pictures of docs/ that the program generates. A test fails while the pages are out of date.
# usage: scripts/generate_docs.sh     (needs build/tessera)
set -eu
cd "$(dirname "$0")/.."
build/tessera config explain --markdown >docs/configuration.md.part
mv docs/configuration.md.part docs/configuration.md
echo "docs/configuration.md written"
build/tessera compile --passes >docs/passes.md.table
# The table of passes starts with this line.
awk -v table=docs/passes.md.table '
  /^\| pass \| level \| when \|/ { while ((getline line < table) > 0) print line; skips = 1 }
  !/^\|/ { skips = 0 }
  !skips { print }' docs/passes.md >docs/passes.md.part
rm docs/passes.md.table
mv docs/passes.md.part docs/passes.md
echo "docs/passes.md written"

# The captions in README.md and docs/how_it_works.md give these commands.
build/tessera plan configs/recipes/pythia-1.4b.yaml --cluster a100-80gb layout.pipeline=4 layout.data=2 \
  layout.recompute=none batch.global=64 batch.micro=4 --svg docs/images/step.svg --force >/dev/null
for schedule in 1f1b zero_bubble; do
  build/tessera compile configs/recipes/pythia-160m.yaml --timeline svg layout.data=1 layout.pipeline=4 \
    layout.recompute=none layout.pipeline_schedule=$schedule batch.global=32 batch.micro=4 >docs/images/$schedule.svg
done
echo "docs/images written"
