#!/bin/bash
# Trains a tiny model on the text of Tessera's own documents, in the current folder: about half a minute.
# usage: first_run.sh     (the program: $TESSERA, the one of this package, or the one on the PATH)
set -eu
examples=$(cd "$(dirname "$0")" && pwd)
tessera=${TESSERA:-$examples/../../../bin/tessera}
[ -x "$tessera" ] || tessera=tessera
documents=$examples/../docs
[ -d "$documents" ] || documents=$examples/../../doc/tessera

find "$documents" -name '*.md' | sort | xargs cat >documents.txt
"$tessera" tokenizer train --vocabulary 1024 --out tokenizer.json documents.txt
"$tessera" data build --tokenizer tokenizer.json --split paragraphs --out data/train documents.txt
"$tessera" train "$examples/first_run.yaml"
"$tessera" generate runs/first --prompt 'The training step' --max-tokens 40
