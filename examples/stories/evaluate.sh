#!/bin/bash
# Evaluates the model before and after chat-tuning: perplexity of text and of answers, and a task of its own.
# About half a minute after chat_model.sh, which it runs if its model is not in the current folder.
# usage: evaluate.sh
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need_chat_model

tail -n 400 text.txt >some_text.txt
for model in runs/base runs/chat; do
  step "$model"
  "$tessera" eval "$model" --text some_text.txt
  write_task held_out.jsonl
  "$tessera" eval "$model" --task facts.yaml --examples "$model-answers.jsonl" --force
done
step "loss on the answers"
"$tessera" eval runs/chat --instructions held_out.jsonl

before=$(right_answers runs/base held_out.jsonl)
after=$(right_answers runs/chat held_out.jsonl)
echo "right answers: $before before chat-tuning, $after after it"
expect_at_least "$after" 0.5 "right answers after chat-tuning"
expect_at_least "$after" "$before" "right answers after chat-tuning"
