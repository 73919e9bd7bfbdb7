# The parts of gpu_check.sh that train: sourced by it. $program is tessera, $report_folder keeps what a
# part leaves; GPU_DEVICE=cpu shows that the parts themselves work, and nothing about a GPU.
device=${GPU_DEVICE:-cuda}
families="gpt2 neox llama t5"

# $work: a tokenizer and a dataset of random text, the same everywhere.
make_data() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  awk 'BEGIN { srand(7); for (i = 0; i < 300000; i++) {
    w = ""; n = 1 + int(rand() * 8); for (k = 0; k < n; k++) w = w substr("aeionrstlmdu", 1 + int(rand() * rand() * 12), 1)
    printf "%s%s", w, (i % 12 == 11 ? ".\n" : " ") } }' >"$work/text.txt"
  "$program" tokenizer train --vocabulary 1024 --out "$work/tokenizer.json" "$work/text.txt" &&
    "$program" data build --tokenizer "$work/tokenizer.json" --out "$work/train" "$work/text.txt"
} >/dev/null

# A run called NAME: train NAME RANKS key=value…  In f32, in which the order of sums is all that two
# runs may differ by, unless a key is set otherwise.
train() {
  local name=$1 ranks=$2 launch=()
  shift 2
  [ "$ranks" = 1 ] || launch=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$ranks")
  cat >"$work/$name.yaml" <<YAML
run: { name: $name, directory: $work/$name, seed: 7, device: $device, kernel_selection: heuristic }
data: { tokenizer: $work/tokenizer.json, train: [$work/train], validation: [$work/train] }
precision: fp32
optimizer: { learning_rate: 1.0e-3, weight_decay: 0.1, epsilon: 1.0e-5 }
schedule: { kind: constant, steps: 20 }
checkpoint: { every_steps: 0, resume: auto }
metrics: { validate_every_steps: 0, validate_sequences: 4, tensorboard: false }
YAML
  "${launch[@]}" "$program" train "$work/$name.yaml" "$@" </dev/null >"$work/$name.log" 2>&1 ||
    { tail -5 "$work/$name.log"; return 1; }
}

small() {
  echo model.family="$1" model.layers=4 model.hidden=128 model.heads=4 model.context=128 batch.global=4
  [ "$1" != t5 ] || echo model.encoder_layers=4 data.objective=span_corruption \
    data.tokenizer="$work/spans.model" data.train="[$work/spans]" data.validation="[$work/spans]"
}

# T5 removes spans of the text, for which a tokenizer has sentinels.
make_spans() {
  head -3000 "$work/text.txt" >"$work/some.txt"
  "$program" tokenizer train --kind unigram --sentinels 100 --vocabulary 1024 --out "$work/spans.model" "$work/some.txt" &&
    "$program" data build --tokenizer "$work/spans.model" --out "$work/spans" "$work/some.txt"
} >/dev/null

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
  make_data && make_spans || return 1
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

# The same with shapes for which cuDNN may be chosen for attention, because it is faster there. The log
# has the number of shapes for which it was.
part_parity_cudnn() {
  make_data || return 1
  local bad=0 family
  for family in gpt2 llama; do
    # shellcheck disable=SC2046
    train "cpu-long-$family" 1 $(long "$family") run.device=cpu &&
      train "$device-long-$family" 1 $(long "$family") run.kernel_selection=autotune &&
      same "cpu-long-$family" "$device-long-$family" 2e-3 || bad=1
    grep -h 'attention  ' "$work/$device-long-$family/log.txt"
  done
  return $bad
}
long() {
  echo model.family="$1" model.layers=2 model.hidden=256 model.heads=4 model.context=1024 \
    batch.global=2 precision=bf16 schedule.steps=10
}

# Several ranks, on one GPU if there is only one.
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

# Stopped and resumed, bit for bit; and the CPU resumes what the device saved.
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

# Offloaded activations return unchanged.
part_offload() {
  make_data || return 1
  # shellcheck disable=SC2046
  train kept 1 $(small llama) model.layers=8 &&
    train copied 1 $(small llama) model.layers=8 layout.offload=activations && same kept copied 0 &&
    train moved 1 $(small llama) model.layers=8 layout.offload=activations+optimizer && same kept moved 0
}

# A checkpoint of the device: both score it and generate text from it.
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

# The GPU, and whether this program runs on it.
part_device() {
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
  "$program" doctor | grep -A 1 ' GPU ' && { [ "$device" = cpu ] || "$program" doctor | grep -q 'GPU .* x '; }
}

# Planned and allocated memory are equal; memory outside the arena is printed.
part_memory() {
  make_data || return 1
  local bad=0 family line
  for family in gpt2 llama; do
    # shellcheck disable=SC2046
    train "memory-$family" 1 $(small "$family") precision=bf16 metrics.validate_every_steps=10 || { bad=1; continue; }
    line=$(grep -m1 'memory    on the device' "$work/memory-$family/log.txt" || grep -m1 'memory    peak' "$work/memory-$family/log.txt")
    echo "$family: $line"
    [ "$device" = cpu ] ||
      awk '{ for (i = 1; i <= NF; i++) { if ($i == "planned,") planned = $(i - 2); if ($i == "allocated;") got = $(i - 1) }
        exit !(planned != "" && planned + 0 == got + 0) }' <<<"$line" || bad=1
  done
  return $bad
}

# Each own kernel by itself, in the sizes of GPT-2 1.5B.
part_bandwidth() { "$program" bench --kernels --device "$device"; }

# The dense bf16 rate by the GPU's data sheet, in TFLOP/s; nothing for an unknown GPU.
peak_of() {
  case $1 in
    *H100*PCIe*) echo 756 ;;
    *H100*NVL* | *H200*NVL*) echo 835 ;;
    *H100* | *H200* | *GH200*) echo 989.4 ;;
    *A100*) echo 312 ;;
    *B200*) echo 2250 ;;
    *L40S*) echo 362 ;;
  esac
}

# The median of a key of a metrics file, of its second half.
median_of() {  # KEY FILE
  grep -o "\"$1\": *[-0-9.e+]*" "$2" | sed 's/.*: *//' | awk '{ x[NR] = $1 }
    END { first = int(NR / 2) + 1; n = NR - first + 1
      for (i = first; i <= NR; i++) for (k = first; k < NR; k++) if (x[k] > x[k + 1]) { t = x[k]; x[k] = x[k + 1]; x[k + 1] = t }
      if (n > 0) printf "%.6g", x[first + int(n / 2)] }'
}

# Tokens per second, MFU by the 6N + attention counter, PyTorch compiled, and the ceilings of the
# model's own GEMM shapes. Nothing is saved: a checkpoint of 1.5 B parameters has 22 GB. GPU_BENCH_KEYS
# comes last, so it may change any key.
bench() {  # PRESET TOKENS SEQUENCES MICRO
  make_data || return 1
  local run="$work/bench" card peak ours theirs
  # shellcheck disable=SC2086
  train bench 1 model.preset="$1" model.context="$2" precision=bf16 run.kernel_selection=autotune \
    batch.global="$3" batch.micro="$4" schedule.steps=12 checkpoint.save_at_end=false \
    metrics.validate_sequences=1 ${GPU_BENCH_KEYS:-} || return 1
  ours=$(median_of tokens_per_s "$run/metrics.jsonl")
  card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)
  peak=$(peak_of "$card")
  awk -v what="$1, $3 x $2" -v tokens="$ours" -v flops="$(median_of model_flops_per_s "$run/metrics.jsonl")" \
    -v share="$(median_of model_flops_share "$run/metrics.jsonl")" -v peak="${peak:-0}" -v card="$card" 'BEGIN {
      printf "%s: %.0f tokens/s, %.2f TFLOP/s of the model, %.1f %% of the measured matrix rate\n", what, tokens, flops / 1e12, 100 * share
      if (peak > 0) printf "%s: MFU %.1f %% of the %.1f TFLOP/s in the data sheet of %s\n", what, flops / peak / 1e10, peak, card
      else printf "%s: no data sheet of \"%s\" is known here, so no MFU\n", what, card }'
  grep 'memory    on the device\|graphs  ' "$run/log.txt"
  if [ "$device" = cuda ]; then python=(env LD_LIBRARY_PATH="$system_libraries" python3); else python=(python3); fi
  if ! "${python[@]}" -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and sys.argv[1] == "cuda")' "$device" 2>/dev/null; then
    echo "$1: no PyTorch for this device here, so nothing to compare with"
    python=(python3)
  fi
  [ ! -f "$run/kernel_selection.txt" ] || "${python[@]}" "$ceilings" "$run/kernel_selection.txt" 2>&1 || echo "$1: no ceilings"
  "${python[@]}" -c 'import torch' 2>/dev/null || return 0
  theirs=$("${python[@]}" "$peer" "$run/run.yaml" --device "$device" 2>"$work/peer.log") ||
    { echo "$1: PyTorch failed: $(tail -1 "$work/peer.log")"; return 0; }
  echo "$theirs" | awk -v what="$1" -v ours="$ours" '{ match($0, /"tokens_per_s": *[0-9.e+]+/); t = substr($0, RSTART, RLENGTH); sub(/.*: */, "", t)
    printf "%s: PyTorch compiled %.0f tokens/s; ours is %.2f times that\n", what, t, ours / t }'
}
part_bench_gpt2() { bench gpt2 1024 64 16; }
part_bench_gpt2_xl() { bench gpt2-xl 1024 64 8; }
part_bench_pythia() { bench pythia-1.4b 2048 32 4; }
part_bench_llama() { bench llama3.2-1b 2048 32 4; }
part_bench_llama_long() { bench llama3.2-1b 8192 8 1; }

# The time of a step, op by op: trace.json of a step of GPT-2 1.5B in few layers, which is
# kept, and its largest sums here. Then, where there is ncu, five own kernels as it sees them.
part_timeline() {
  make_data || return 1
  # shellcheck disable=SC2086
  train timeline 1 model.preset=gpt2-xl model.layers=4 model.context=1024 precision=bf16 \
    run.kernel_selection=autotune batch.global=8 batch.micro=8 schedule.steps=6 metrics.trace_step=5 \
    checkpoint.save_at_end=false metrics.validate_sequences=1 ${GPU_BENCH_KEYS:-} || return 1
  cp "$work/timeline/trace.json" "$report_folder/trace.json"
  python3 - "$work/timeline/trace.json" <<'SUMS' || return 1
import collections, json, sys
with open(sys.argv[1], encoding="utf-8") as f:
    events = json.load(f)
events = events["traceEvents"] if isinstance(events, dict) else events
sums, counts = collections.Counter(), collections.Counter()
for e in events:
    if e.get("ph") == "X":
        sums[e["name"]] += e["dur"]
        counts[e["name"]] += 1
whole = sum(sums.values())
for name, us in sums.most_common(20):
    print(f"{name}: {us / 1e3:.2f} ms in {counts[name]} calls, {100 * us / whole:.1f} % of all ops")
SUMS
  [ "$device" = cuda ] && command -v ncu >/dev/null || return 0
  ncu --clock-control none --section SpeedOfLight --launch-skip 20 --launch-count 5 \
    "$program" bench --kernels --device cuda 2>&1 | tail -60 || echo "ncu failed"
}
