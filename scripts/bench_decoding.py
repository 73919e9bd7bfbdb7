#!/usr/bin/env python3
"""Tokens per second of transformers' generate on the CPU, greedy: the peer of scripts/bench_decoding.sh.

usage: scripts/bench_decoding.py FOLDER PROMPTS NEW_TOKENS THREADS
PROMPTS has one text per line, all with the same number of tokens, so nothing is padded. Prints the
number of new tokens per second, the median of three runs after one that is not counted, and writes the
ids of the first text to standard error.
"""
import statistics
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    folder, prompts, new, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with open(prompts, encoding="utf-8") as f:
        ids = torch.tensor([tokenizer(line.rstrip("\n"))["input_ids"] for line in f])
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=new,
                                 min_new_tokens=new, pad_token_id=0)
        seconds.append(time.perf_counter() - start)
        assert out.shape == (ids.shape[0], ids.shape[1] + new), out.shape
    print(f"{ids.shape[0] * new / statistics.median(seconds[1:]):.1f}")
    print(out[0, ids.shape[1]:].tolist(), file=sys.stderr)


if __name__ == "__main__":
    main()
