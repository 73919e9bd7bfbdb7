#!/bin/bash
# Makes the data of the examples in the current folder: tokenizers, datasets, chats, a small base model.
# usage: make_data.sh [TEXT_FILE]     (default: 3 MB of Debian's dictionary gcide)
set -eu
if [ $# = 0 ]; then
  [ -r /usr/share/dictd/gcide.dict.dz ] || { echo "no text: name a file, or install Debian's dict-gcide" >&2; exit 1; }
  gzip -dc </usr/share/dictd/gcide.dict.dz | tail -c 3000000 >text.txt
else
  cat -- "$1" >text.txt
fi
head -n -2000 text.txt >train.txt
tail -n 2000 text.txt >validation.txt

tessera tokenizer train --vocabulary 2048 --special '<|endoftext|>' --special '<|im_start|>' --special '<|im_end|>' \
  --out tokenizer.json train.txt
tessera data build --tokenizer tokenizer.json --split paragraphs --out data/train train.txt
tessera data build --tokenizer tokenizer.json --split paragraphs --out data/validation validation.txt
tail -c 600000 train.txt >recent.txt
tessera data build --tokenizer tokenizer.json --split paragraphs --out data/recent recent.txt

# T5 needs a SentencePiece model with sentinels, and datasets with its ids.
tessera tokenizer train --kind unigram --vocabulary 2048 --sentinels 100 --out spiece.model train.txt
tessera data build --tokenizer spiece.model --split paragraphs --out data/t5 train.txt

awk 'BEGIN { for (a = 1; a <= 20; a++) for (b = 1; b <= 20; b++)
  printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%d plus %d?\"}, {\"role\": \"assistant\", \"content\": \"%d\"}]}\n", a, b, a + b }' >chat.jsonl
# Pairs of answers of which the shorter one is preferred.
awk 'BEGIN { for (a = 1; a <= 20; a++) for (b = 1; b <= 20; b++)
  printf "{\"prompt\": \"%d plus %d is \", \"chosen\": \"%d\", \"rejected\": \"%d, I think, or so\"}\n", a, b, a + b, a + b }' >preferences.jsonl

tessera train "$(dirname "$0")/pretrain_llama.yaml" run.name=base schedule.steps=20 metrics.validate_sequences=16
tessera checkpoint export runs/base --to base-hf
