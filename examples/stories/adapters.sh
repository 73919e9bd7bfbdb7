#!/bin/bash
# Adapters on a Hugging Face folder: a chat model learns to answer in sentences by LoRA; merging, and export as
# folders of transformers and of PEFT. Half a minute after chat_model.sh, which it runs if its model is not here.
# usage: adapters.sh
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need_chat_model

rm -rf chat-hf merged tuned-hf lora-peft runs/lora
step "a Hugging Face folder of a chat model"
"$tessera" checkpoint export runs/chat --to chat-hf
ls chat-hf
"$tessera" config print chat-hf

step "conversations with answers in sentences"
for name in chat held_out; do
  sentences $name.jsonl | awk -F'|' '{
    printf "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", $1, $2
  }' >"${name}_sentences.jsonl"
done
head -n 1 chat_sentences.jsonl

step "LoRA: adds two small matrices to each weight, and trains only these"
"$tessera" finetune --from chat-hf --data chat_sentences.jsonl --validation held_out_sentences.jsonl --out runs/lora \
  --epochs 6 --lora 8 --learning-rate 5e-3 batch.global=4
"$tessera" chat runs/lora --temperature 0 <<<'Which color is the balin?'
before=$(loss_on chat-hf held_out_sentences.jsonl)
after=$(loss_on runs/lora held_out_sentences.jsonl)
echo "loss on sentences about other animals: $before before, $after with the adapters"
expect_at_least "$before" "$(awk -v x="$after" 'BEGIN { print 4 * x }')" "loss before"

step "plain weights for transformers, and the adapters alone for PEFT"
"$tessera" checkpoint merge runs/lora --out merged
"$tessera" checkpoint export merged --to tuned-hf
"$tessera" checkpoint export runs/lora --adapter --to lora-peft
ls tuned-hf lora-peft
merged=$(loss_on tuned-hf held_out_sentences.jsonl)
echo "loss of tuned-hf: $merged"
expect_at_least "$(awk -v x="$after" 'BEGIN { print 1.01 * x }')" "$merged" "1.01 times the loss with adapters"

step "the adapters over the base model, without a copy of it, and the base model itself"
"$tessera" eval chat-hf --instructions held_out_sentences.jsonl --adapter lora-peft --adapter runs/lora --adapter none
