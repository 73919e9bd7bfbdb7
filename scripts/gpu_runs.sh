# The parts of gpu_check.sh that train: sourced by it. $program is tessera; GPU_DEVICE=cpu shows that
# the parts themselves work, and says nothing of a card.
device=${GPU_DEVICE:-cuda}
families="gpt2 neox llama t5"

# $work: a tokenizer and a dataset of random words, the same everywhere.
make_data() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  awk 'BEGIN { srand(7); for (i = 0; i < 300000; i++) {
    w = ""; n = 1 + int(rand() * 8); for (k = 0; k < n; k++) w = w substr("aeionrstlmdu", 1 + int(rand() * rand() * 12), 1)
    printf "%s%s", w, (i % 12 == 11 ? ".\n" : " ") } }' >"$work/text.txt"
  "$program" tokenizer train --vocabulary 1024 --out "$work/tokenizer.json" "$work/text.txt" &&
    "$program" data build --tokenizer "$work/tokenizer.json" --out "$work/train" "$work/text.txt"
} >/dev/null

# A run called NAME: train NAME RANKS key=value…
train() {
  local name=$1 ranks=$2 launch=()
  shift 2
  [ "$ranks" = 1 ] || launch=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks")
  cat >"$work/$name.yaml" <<YAML
run: { name: $name, directory: $work/$name, seed: 7, device: $device, products: proposed }
data: { tokenizer: $work/tokenizer.json, train: [$work/train], validation: [$work/train] }
optimizer: { learning_rate: 1.0e-3, weight_decay: 0.1, epsilon: 1.0e-5 }
schedule: { kind: constant, steps: 20 }
checkpoint: { every_steps: 0, resume: auto }
metrics: { validate_every_steps: 0, validate_sequences: 4, tensorboard: false }
YAML
  "${launch[@]}" "$program" train "$work/$name.yaml" "$@" </dev/null >"$work/$name.log" 2>&1 ||
    { tail -5 "$work/$name.log"; return 1; }
}

small() { echo model.family="$1" model.layers=4 model.hidden=128 model.heads=4 model.context=128 batch.global=4; }

# Losses and norms of two runs: same NAME NAME BOUND
same() {
  awk -v bound="$3" -v what="$1 and $2" '
    function number(key) { return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
    function away(a, b) { return a > b ? (a - b) / a : (b - a) / (b == 0 ? 1 : b) }
    /"loss"/ { at = number("step")
      if (NR == FNR) { loss[at] = number("loss"); norm[at] = number("grad_norm"); next }
      d = away(loss[at], number("loss")); if (d > worst) worst = d
      e = away(norm[at], number("grad_norm")); if (e > worst_norm) worst_norm = e; both++ }
    END { printf "%s: %d steps, losses differ by %.1e, norms by %.1e (bound %s, ten times that)\n", what, both, worst, worst_norm, bound
      exit !(both > 0 && worst <= bound && worst_norm <= 10 * bound) }' \
    "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl"
}

# The device against the CPU, which other tests compare with PyTorch.
part_parity() {
  make_data || return 1
  local bad=0 family precision bound
  for family in $families; do
    for precision in fp32:1e-5 bf16:2e-3; do
      bound=${precision#*:} precision=${precision%:*}
      # shellcheck disable=SC2046
      train "cpu-$family-$precision" 1 $(small "$family") precision="$precision" run.device=cpu &&
        train "$device-$family-$precision" 1 $(small "$family") precision="$precision" &&
        same "cpu-$family-$precision" "$device-$family-$precision" "$bound" || bad=1
    done
  done
  return $bad
}

# Several ranks, on one card where there is one.
part_layouts() {
  command -v mpirun >/dev/null || return 77
  make_data || return 1
  local bad=0 layout ranks
  # shellcheck disable=SC2046
  train one 1 $(small llama) || return 1
  while read -r ranks layout; do
    # shellcheck disable=SC2046,SC2086
    train "$(tr ' =.' '---' <<<"$layout")" "$ranks" $(small llama) $layout &&
      same one "$(tr ' =.' '---' <<<"$layout")" 1e-5 || bad=1
  done <<'LAYOUTS'
2 layout.data=2
2 layout.data=2 layout.zero=1
2 layout.data=2 layout.zero=3
2 layout.tensor=2
2 layout.tensor=2 layout.sequence_parallel=true
2 layout.pipeline=2
4 layout.data=2 layout.tensor=2 layout.zero=2
4 layout.pipeline=2 layout.tensor=2 layout.pipeline_schedule=zero_bubble
LAYOUTS
  return $bad
}

# Stopped and gone on with, bit for bit; and what the device saved goes on on the CPU.
part_resume() {
  make_data || return 1
  # shellcheck disable=SC2046
  train whole 1 $(small neox) && train broken 1 $(small neox) run.stop_after_steps=9 &&
    train broken 1 $(small neox) &&
    "$program" checkpoint diff "$work/whole/checkpoints/20" "$work/broken/checkpoints/20" |
    grep '^0 of' &&  # the runs' names differ
    train moved 1 $(small neox) run.stop_after_steps=9 &&
    train moved 1 $(small neox) run.device=cpu && same whole moved 1e-5
}

# What waits in the host's memory comes back as it went.
part_offload() {
  make_data || return 1
  # shellcheck disable=SC2046
  train kept 1 $(small llama) model.layers=8 &&
    train copied 1 $(small llama) model.layers=8 layout.offload=activations && same kept copied 0
}

# A device's checkpoint, scored and gone on with in words by both.
part_eval() {
  make_data || return 1
  local bad=0 family
  for family in gpt2 neox llama; do
    # shellcheck disable=SC2046
    train "eval-$family" 1 $(small "$family") || { bad=1; continue; }
    for place in cpu "$device"; do
      "$program" eval "$work/eval-$family" "$work/train" --samples 8 --device "$place" --json |
        grep -o '"loss": *[0-9.e-]*' >"$work/loss-$place" &&
        "$program" generate "$work/eval-$family" --prompt 'a line ' --max-tokens 24 \
          --temperature 0 --device "$place" --json >"$work/text-$place" || bad=1
    done
    cmp "$work/text-cpu" "$work/text-$device" &&
      cat "$work/loss-cpu" "$work/loss-$device" | awk -v what="$family" '{ x[NR] = $NF; sub(/.*:/, "", x[NR]) }
        END { d = (x[1] - x[2]) / x[1]; printf "%s: losses %s and %s, texts equal\n", what, x[1], x[2]
          exit !(NR == 2 && d * d <= 1e-10) }' || bad=1
  done
  return $bad
}

# Tokens a second and the share of the card's matrix rate, by the 6N + attention counter.
part_bench() {
  make_data || return 1
  local bad=0 preset length micro
  while read -r preset length micro; do
    if train "bench-$preset-$length" 1 model.preset="$preset" model.context="$length" precision=bf16 \
      run.products=measured batch.global="$micro" batch.micro="$micro" schedule.steps=12; then
      awk -v what="$preset, $micro x $length" '
        function number(key) { return match($0, "\"" key "\":[-0-9.e+]+") ? substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0 : 0 }
        /"tokens_per_s"/ { if (number("tokens_per_s") > best) { best = number("tokens_per_s"); share = number("model_flops_share") } }
        END { printf "%s: %.0f tokens/s, %.1f %% of the measured matrix rate\n", what, best, 100 * share }' \
        "$work/bench-$preset-$length/metrics.jsonl"
    else
      bad=1
    fi
    rm -rf "${work:?}/bench-$preset-$length"
  done <<SHAPES
${GPU_SHAPES:-gpt2 1024 16
gpt2-xl 1024 8
pythia-1.4b 2048 4
llama3.2-1b 2048 4
llama3.2-1b 8192 1}
SHAPES
  return $bad
}
