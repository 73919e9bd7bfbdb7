#!/bin/bash
# Makes one small model and compares our results in tasks with lm-evaluation-harness's on it: trains a
# LLaMA of 4 layers x 128 on the first solved questions of gsm8k until it has learned some of them,
# exports it, and runs scripts/check_tasks.py. Needs build/tessera and gsm8k.jsonl in DATA_FOLDER.
# usage: scripts/check_tasks.sh DATA_FOLDER [what check_tasks.py takes behind its folders]
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?usage: scripts/check_tasks.sh DATA_FOLDER [--limit N] [TASK.yaml …]}
. scripts/peer_environment.sh
"$peer/bin/python" -c 'import lm_eval' 2>/dev/null || "$peer/bin/pip" install -q lm-eval
tessera=build/tessera folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$peer/bin/python" - "$data/gsm8k.jsonl" >"$folder/solved.jsonl" <<'P'
import json, sys
for line in open(sys.argv[1], encoding="utf-8").read().splitlines()[:16]:
    e = json.loads(line)
    text = f"Question: {e['context']}\nAnswer: {e['chain_of_thought']}\n#### {e['answer']}\n\nQuestion:"
    print(json.dumps({"text": text}))
P
"$tessera" tokenizer train --vocabulary 2048 --key chain_of_thought --out "$folder/t.json" "$data/gsm8k.jsonl" >/dev/null
"$tessera" data build --tokenizer "$folder/t.json" --out "$folder/d" "$folder/solved.jsonl" >/dev/null
cat >"$folder/run.yaml" <<Y
run: { name: tasks, directory: $folder/run, seed: 1 }
model: { family: llama, layers: 4, hidden: 128, heads: 8, kv_heads: 4, feed_forward: 336, vocabulary: 2048, context: 768 }
data: { tokenizer: $folder/t.json, train: [$folder/d], sequence_length: 256 }
batch: { global: 8, micro: 4 }
optimizer: { learning_rate: 2.0e-3 }
schedule: { kind: cosine, steps: ${TASK_STEPS:-250}, warmup_steps: 10 }
precision: fp32
checkpoint: { every_steps: 0 }
metrics: { tensorboard: false }
Y
"$tessera" train "$folder/run.yaml" | tail -1
"$tessera" checkpoint export "$folder/run" --to "$folder/hf" >/dev/null
"$peer/bin/python" scripts/check_tasks.py "$tessera" "$folder/run" "$folder/hf" "$data" "${@:2}"
