#!/bin/bash
# Makes one small model and compares our results in tasks with lm-evaluation-harness's on it: trains a
# LLaMA of 4 layers x 128, or a T5 of 2 + 2, on the first solved questions of gsm8k until it has learned
# some of them, exports it, and runs scripts/check_tasks.py. Needs build/tessera and gsm8k.jsonl in
# DATA_FOLDER.
# usage: scripts/check_tasks.sh DATA_FOLDER [--family llama|t5] [further options of check_tasks.py]
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?usage: scripts/check_tasks.sh DATA_FOLDER [--family llama|t5] [--limit N] [TASK.yaml …]}
shift
family=llama
if [ "${1:-}" = --family ]; then family=$2 && shift 2; fi
. scripts/peer_environment.sh
"$peer/bin/python" -c 'import lm_eval' 2>/dev/null || "$peer/bin/pip" install -q lm-eval
tessera=build/tessera folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$peer/bin/python" - "$data/gsm8k.jsonl" >"$folder/solved.jsonl" <<'P'
import json, sys
for line in open(sys.argv[1], encoding="utf-8").read().splitlines()[:16]:
    e = json.loads(line)
    asked = f"Question: {e['context']}\nAnswer:"
    solved = f" {e['chain_of_thought']}\n#### {e['answer']}"
    print(json.dumps({"text": f"{asked}{solved}\n\nQuestion:", "prompt": asked, "response": solved}))
P
if [ "$family" = t5 ]; then
  "$tessera" tokenizer train --kind unigram --vocabulary 2048 --sentinels 100 --key chain_of_thought \
    --out "$folder/t" "$data/gsm8k.jsonl" >/dev/null
  # Tied: lm-eval ties the head of every T5 that transformers 5 loads.
  model="tied_embeddings: true, encoder_layers: 2, layers: 2, hidden: 96, heads: 4,
    head_width: 24, feed_forward: 192, dropout: 0"
  rows="instructions: [$folder/solved.jsonl], template: \"{prompt}{response}\", target_length: 256"
else
  "$tessera" tokenizer train --vocabulary 2048 --key chain_of_thought --out "$folder/t" "$data/gsm8k.jsonl" >/dev/null
  "$tessera" data build --tokenizer "$folder/t" --out "$folder/d" "$folder/solved.jsonl" >/dev/null
  model="layers: 4, hidden: 128, heads: 8, kv_heads: 4, feed_forward: 336"
  rows="train: [$folder/d]"
fi
cat >"$folder/run.yaml" <<Y
run: { name: tasks, directory: $folder/run, seed: 1 }
model: { family: $family, $model, vocabulary: 2048, context: 768 }
data: { tokenizer: $folder/t, $rows, sequence_length: 256 }
batch: { global: 8, micro: 4 }
optimizer: { learning_rate: 2.0e-3 }
schedule: { kind: cosine, steps: ${TASK_STEPS:-250}, warmup_steps: 10 }
precision: fp32
checkpoint: { every_steps: 0 }
metrics: { tensorboard: false }
Y
"$tessera" train "$folder/run.yaml" | tail -1
"$tessera" checkpoint export "$folder/run" --to "$folder/hf" >/dev/null
"$peer/bin/python" scripts/check_tasks.py "$tessera" "$folder/run" "$folder/hf" "$data" "$@"
