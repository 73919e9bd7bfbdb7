#!/bin/bash
# Compares decoding with transformers' generate on the same CPU and weights (f32, greedy), at batches of
# 1 and 8, and prints the rate at which the weights are read, next to the memory bandwidth.
# usage: scripts/bench_decoding.sh [NEW_TOKENS] [THREADS]     (default: 64 tokens, all cores)
# Needs build/tessera; makes a model of Pythia-70m's sizes with random weights.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/peer_environment.sh
new=${1:-64} threads=${2:-$(nproc)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tessera=${TESSERA:-$PWD/build/tessera}
"$peer/bin/python" - "$folder" <<'PYTHON'
import sys, pathlib, torch
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, PreTrainedTokenizerFast
folder = pathlib.Path(sys.argv[1])
torch.manual_seed(0)
model = GPTNeoXForCausalLM(GPTNeoXConfig(
    vocab_size=50304, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048,
    max_position_embeddings=1024, rotary_pct=0.25, bos_token_id=0, eos_token_id=0))
model.save_pretrained(folder / "hf")
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
vocabulary = {"<|endoftext|>": 0, **{c: i + 1 for i, c in enumerate(alphabet)}}
tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.add_special_tokens(["<|endoftext|>"])
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
fast.save_pretrained(folder / "hf")
text = "The quick brown fox jumps over the lazy dog."
for batch in (1, 8):
    lines = [text[i:] + text[:i] for i in range(batch)]
    (folder / f"{batch}.txt").write_text("".join(line + "\n" for line in lines))
PYTHON
"$tessera" checkpoint import --from "$folder/hf" --out "$folder/run" >/dev/null
bandwidth=$("$peer/bin/python" - "$threads" <<'PYTHON'
import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
x = torch.ones(256 << 20 >> 2)
best = 1e9
for _ in range(8):
    start = time.perf_counter()
    x.sum()
    best = min(best, time.perf_counter() - start)
print(f"{x.numel() * 4 / best / 1e9:.1f}")
PYTHON
)
echo "memory: $bandwidth GB/s when $threads threads read"
for batch in 1 8; do
  theirs=$("$peer/bin/python" scripts/bench_decoding.py "$folder/hf" "$folder/$batch.txt" "$new" "$threads" 2>/dev/null)
  "$tessera" generate "$folder/run" --prompts "$folder/$batch.txt" --batch "$batch" --max-tokens "$new" \
    --temperature 0 --ignore-end --threads "$threads" >/dev/null 2>"$folder/log"
  line=$(tail -1 "$folder/log")
  ours=$(sed -E 's/.* s: ([0-9.]+) tokens\/s.*/\1/' <<<"$line")
  awk -v b="$batch" -v o="$ours" -v t="$theirs" -v l="$line" 'BEGIN {
    printf "batch %d: %.1f tokens/s, transformers %.1f: %.2f times\n  %s\n", b, o, t, o / t, l }'
done
