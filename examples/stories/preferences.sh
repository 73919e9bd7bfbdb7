#!/bin/bash
# Teaches the chat model to answer in sentences by preference pairs (ORPO): of two answers, the sentence is better.
# Half a minute after chat_model.sh, which it runs if its model is not here.
# usage: preferences.sh
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need_chat_model

rm -rf runs/preferences
step "pairs of answers"
sentences chat.jsonl | awk -F'|' '{
  message = "[{\"role\": \"%s\", \"content\": \"%s\"}]"
  printf "{\"prompt\": " message ", \"chosen\": " message ", \"rejected\": " message "}\n", \
    "user", $1, "assistant", $2, "assistant", $3 }' >pairs.jsonl
head -n 1 pairs.jsonl

step "ORPO"
cat >preferences.yaml <<'END'
run: { name: preferences, seed: 1 }
checkpoint: { from: runs/chat, load: weights }
data: { instructions: [pairs.jsonl], sequence_length: 128 }
objective: { kind: orpo }
batch: { global: 8, micro: 8 }                   # pairs
optimizer: { learning_rate: 5.0e-4, weight_decay: 0 }
schedule: { kind: cosine, steps: 100, warmup_steps: 5 }
END
"$tessera" train preferences.yaml

step "the same question, before and after"
question='Which color is the balin?'
before=$("$tessera" chat runs/chat --temperature 0 <<<"$question")
after=$("$tessera" chat runs/preferences --temperature 0 <<<"$question")
printf 'before: %s\nafter:  %s\n' "$before" "$after"
case $after in
  "It is "*.) ;;
  *) echo "expected a sentence, such as 'It is green.'" >&2; exit 1 ;;
esac
