#!/bin/bash
# From a bare Debian 12 to a trained language model in under ten minutes: installs packages, builds,
# trains a tokenizer and a small NeoX model on English text, and lets it write. Run again, it reuses
# what it has.
# usage: scripts/quickstart.sh [TEXT_FILE …]      (without files: Debian's dictionary gcide, 40 MB)
set -Eeuo pipefail
cd "$(dirname "$0")/.."

limit_s=${QUICKSTART_SECONDS:-600} # for everything
longest_training_s=300
shortest_training_s=60
after_training_s=12 # the last checkpoint, loading it, writing some text
tessera=build/tessera
SECONDS=0

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
stop() {
  echo "quickstart: $*" >&2
  exit 1
}
trap 'stop "line $LINENO failed: $BASH_COMMAND"' ERR
size_of() { stat -c %s "$1"; }

build() {
  say "building $tessera"
  [ -f build/CMakeCache.txt ] || cmake --preset once >/dev/null
  scripts/build.sh tessera >build/quickstart.log 2>&1 || {
    tail -20 build/quickstart.log >&2
    stop "the build failed; all of its output is in build/quickstart.log"
  }
}

# $folder/train.txt and valid.txt: all but the last 5 % of the bytes, and those, cut at a line's end.
prepare_text() {
  [ -s "$folder/train.txt" ] && [ -s "$folder/valid.txt" ] && return
  local all=$folder/all.txt bytes cut
  if [ $# = 0 ]; then
    gzip -dc </usr/share/dictd/gcide.dict.dz >"$all"
  else
    cat -- "$@" >"$all"
  fi
  bytes=$(size_of "$all")
  [ "$bytes" -ge 1000000 ] || stop "the text has $bytes bytes; at least a megabyte is needed"
  cut=$((bytes - bytes / 20))
  # `head` ends early, and then `tail` gets SIGPIPE: that is not a failure here.
  cut=$((cut + $( (tail -c +$((cut + 1)) "$all" || true) 2>/dev/null | head -n 1 | wc -c)))
  tail -c +$((cut + 1)) "$all" >"$folder/valid.txt"
  head -c "$cut" "$all" >"$folder/train.part"
  mv "$folder/train.part" "$folder/train.txt"
  rm "$all"
}

# Compresses the validation text with xz -9, in bits per byte: alone, and after the training text (of
# which it remembers the last 64 MB). One pass over both: where xz waits for input it writes out what
# it has, so the size between the texts is that of the first.
measure_xz() {
  [ -s "$folder/xz.txt" ] && return
  local out=$folder/xz.out alone first
  alone=$(xz -9 -T1 -c "$folder/valid.txt" | wc -c)
  {
    tail -c 67108864 "$folder/train.txt"
    sleep 20 # xz has a pipe's worth left to do
    size_of "$out" >"$out.first"
    cat "$folder/valid.txt"
  } | xz -9 -T1 --flush-timeout=1000 -c >"$out"
  first=$(cat "$out.first")
  awk -v n="$(size_of "$folder/valid.txt")" -v a="$alone" -v f="$first" -v b="$(size_of "$out")" \
    'BEGIN { printf "%.2f %.2f\n", 8 * a / n, 8 * (b - f) / n }' >"$folder/xz.part"
  rm "$out" "$out.first"
  mv "$folder/xz.part" "$folder/xz.txt"
}

build_data() {
  local name
  [ -s "$folder/tokenizer.json" ] || {
    say "training a tokenizer of 8,192 entries on $(($(size_of "$folder/train.txt") / 1000000)) MB"
    $tessera tokenizer train --vocabulary 8192 --out "$folder/tokenizer.json" "$folder/train.txt" \
      >>"$folder/log.txt" 2>&1 || stop "the tokenizer failed; see $folder/log.txt"
  }
  for name in train valid; do
    [ -s "$folder/$name.idx" ] && continue
    say "building the dataset $folder/$name"
    $tessera data build --tokenizer "$folder/tokenizer.json" --out "$folder/$name" \
      "$folder/$name.txt" >>"$folder/log.txt" 2>&1 || stop "the dataset failed; see $folder/log.txt"
  done
}

# write_run NAME STEPS: the run file $folder/NAME.yaml.
write_run() {
  cat >"$folder/$1.yaml" <<YAML
# A small NeoX model for a few minutes on a few cores. Keys: docs/configuration.md
run:        { name: quickstart, directory: $folder/$1, seed: 1234 }
model:      { family: neox, layers: 4, hidden: 192, heads: 6, vocabulary: 8192, context: 256 }
data:       { tokenizer: $folder/tokenizer.json, train: [$folder/train], validation: [$folder/valid],
              sequence_length: 256 }
batch:      { global: 4, micro: 4 }
optimizer:  { kind: adamw, learning_rate: 3.0e-3, beta1: 0.9, beta2: 0.95, weight_decay: 0.1, clip_norm: 1.0 }
schedule:   { kind: cosine, steps: $2, warmup_steps: $(($2 / 20)), min_lr_ratio: 0.05 }
precision:  auto
checkpoint: { every_steps: 200, keep: 1, resume: auto }
metrics:    { every_steps: 1, validate_every_steps: 0, tensorboard: true }
YAML
}

# The median of key $2 over the lines of $1, after the first three steps.
median_of() {
  sed -n "s/.*\"step\":\([0-9]*\),.*\"$2\":\([-0-9.eE+]*\).*/\1 \2/p" "$1" | awk '$1 > 3 { print $2 }' |
    sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# Steps that fit into what is left, by a short run that measures the speed here.
steps_that_fit() {
  local step_s rate
  write_run probe 24
  sed -i '/validation/s/validation: \[[^]]*\],//; s/every_steps: 200/every_steps: 0/' "$folder/probe.yaml"
  $tessera train "$folder/probe.yaml" >>"$folder/log.txt" 2>&1 || stop "training failed; see $folder/log.txt"
  step_s=$(median_of "$folder/probe/metrics.jsonl" step_s)
  rate=$(median_of "$folder/probe/metrics.jsonl" tokens_per_s)
  rm -r "$folder/probe" "$folder/probe.yaml"
  # A forward pass alone needs about a third of a step. The margin of 5 % is for a machine that slows.
  awk -v left=$((limit_s - SECONDS - after_training_s)) -v longest=$longest_training_s \
    -v shortest=$shortest_training_s -v step="$step_s" -v rate="$rate" \
    -v tokens=$(($(size_of "$folder/valid.bin") / 2)) 'BEGIN {
      s = left - tokens / (3 * rate)
      s = s > longest ? longest : s < shortest ? shortest : s
      printf "%d\n", 0.95 * s / step
    }'
}

train() {
  local steps
  if [ ! -s "$folder/run.yaml" ]; then
    say "measuring the speed of this machine"
    steps=$(steps_that_fit) || exit 1
    [ "$steps" -ge 20 ] || stop "this machine makes $steps steps in the time left; set QUICKSTART_SECONDS higher"
    write_run run "$steps"
  fi
  say "training ($folder/run.yaml)"
  $tessera train "$folder/run.yaml" || stop "training failed; run it again to resume from the last checkpoint"
}

report() {
  local bits xz_alone xz_after
  bits=$(sed -n 's/.*"bits_per_byte":\([-0-9.eE+]*\).*/\1/p' "$folder/run/metrics.jsonl" | tail -n 1)
  [ -n "$bits" ] || stop "the run has no validation line in $folder/run/metrics.jsonl"
  read -r xz_alone xz_after <"$folder/xz.txt"
  say "done"
  echo
  printf 'validation  %.2f bits per byte of text that the model has never seen\n' "$bits"
  printf 'xz -9       %s for the same text alone, %s after the training text\n' "$xz_alone" "$xz_after"
  echo
  echo "It writes:"
  $tessera generate "$folder/run" --prompt "Language is" --max-tokens 120 --temperature 0.8 --seed 1
  cat <<END

Next:
  generate other text      $tessera generate $folder/run --prompt "…"
  train for longer         $tessera train $folder/run.yaml run.directory=runs/longer schedule.steps=20000
  the curves               tensorboard --logdir $folder/run
  keys of a run file       $tessera config explain schedule
  to Hugging Face format   $tessera checkpoint export $folder/run --to exported
  your own text            scripts/quickstart.sh FILE…            tutorials: docs/tutorials/index.md
END
}

for file in "$@"; do [ -r "$file" ] || stop "$file: cannot be read"; done
folder=runs/quickstart
[ $# = 0 ] || folder=runs/quickstart-$(stat -c '%n %s %Y' -- "$@" | cksum | cut -d' ' -f1)
mkdir -p "$folder"
say "packages"
scripts/install_packages.sh build quickstart
say "text into $folder"
prepare_text "$@"
measure_xz & # while the compiler runs: training has the machine to itself
xz_job=$!
build
build_data
wait "$xz_job" || stop "xz could not be measured; is the disk full?"
train
report
