# A run that is small and long enough to be disturbed. To be sourced.
#   small_run FOLDER TESSERA      makes FOLDER/run.yaml, its tokenizer and its data
small_run() {
  local folder=$1 tessera=$2
  mkdir -p "$folder"
  seq 1 40000 | sed 's/.*/the quick brown fox & jumps over the lazy dog again and again/' >"$folder/text.txt"
  "$tessera" tokenizer train --out "$folder/t.json" --vocabulary 512 "$folder/text.txt" >/dev/null &&
    "$tessera" data build --tokenizer "$folder/t.json" --out "$folder/d" --split lines "$folder/text.txt" >/dev/null ||
    return 1
  cat >"$folder/run.yaml" <<RUN
run: { directory: $folder/run, threads: 1 }
model: { family: neox, layers: 4, hidden: 128, heads: 4, vocabulary: 512, context: 64 }
data: { tokenizer: $folder/t.json, train: [$folder/d], sequence_length: 64 }
batch: { global: 8, micro: 2 }
optimizer: { learning_rate: 1.0e-3 }
schedule: { steps: 100000, warmup_steps: 2 }
precision: fp32
layout: { data: 4, zero: 1 }
checkpoint: { every_steps: 0, keep: 2 }
metrics: { validate_every_steps: 0, tensorboard: false }
RUN
}
