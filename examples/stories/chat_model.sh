#!/bin/bash
# From text to a model that answers questions: a tokenizer, pre-training, chat-tuning, and questions about animals
# that only the text describes. About two minutes, in the current folder.
# usage: chat_model.sh
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

rm -rf .stories/chat_model data/text* runs/base runs/chat
step "facts about invented animals"
make_facts
head -n 3 text.txt
head -n 1 chat.jsonl

step "a tokenizer, and the text as tokens"
"$tessera" tokenizer train --vocabulary 600 --special '<|endoftext|>' --special '<|im_start|>' --special '<|im_end|>' \
  --out tokenizer.json text.txt
"$tessera" data build --tokenizer tokenizer.json --split paragraphs --out data/text text.txt

step "pre-training"
cat >base.yaml <<'END'
run: { name: base, seed: 1 }
model: { family: llama, layers: 2, hidden: 128, heads: 4, feed_forward: 344, context: 128, vocabulary: 0 }
data: { tokenizer: tokenizer.json, train: [data/text], sequence_length: 64 }
batch: { global: 32, micro: 32 }
optimizer: { learning_rate: 3.0e-3 }
schedule: { kind: cosine, steps: 600, warmup_steps: 20 }
END
"$tessera" train base.yaml
"$tessera" generate runs/base --prompt 'The balin' --max-tokens 12 --temperature 0

step "chat-tuning"
cat >chatml.jinja <<'END'
{% for message in messages %}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
END
"$tessera" finetune --from runs/base --data chat.jsonl --validation held_out.jsonl --out runs/chat \
  --epochs 16 --learning-rate 1e-3 data.chat_template=chatml.jinja batch.global=4

step "three conversations"
for question in 'Which color is the balin?' 'Where does the balin live?' 'What does the balin eat?'; do
  echo "$question"
  "$tessera" chat runs/chat --temperature 0 <<<"$question"
done
echo "In the text:"
grep -h -E 'The balin (is|lives|eats)' text.txt | sort -u

step "questions about animals that were in no conversation of the training"
share=$(right_answers runs/chat held_out.jsonl)
echo "right answers: $share"
expect_at_least "$share" 0.5 "right answers to held_out.jsonl"
touch .stories/chat_model
