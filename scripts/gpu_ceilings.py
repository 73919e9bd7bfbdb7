#!/usr/bin/env python3
"""The ceilings of a device for one model: its own GEMM shapes and attention, on random data.

    scripts/gpu_ceilings.py RUN_DIR/kernel_selection.txt

Prints a line for each GEMM that the run measured (kernel_selection.txt): the rate of the chosen algorithm,
and that of torch.matmul on the same shape where PyTorch is there. Then the time of PyTorch's
scaled_dot_product_attention for the attention shapes. Operands are random numbers: on zeros a device
uses less power and is faster than a model's step can be.
"""
import re
import sys
import time

try:
    import torch
except ImportError:
    torch = None

TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}


def best_s(work, runs=10, turns=3):
    work()
    torch.cuda.synchronize()
    best = None
    for _ in range(turns):
        before = time.perf_counter()
        for _ in range(runs):
            work()
        torch.cuda.synchronize()
        each = (time.perf_counter() - before) / runs
        best = each if best is None else min(best, each)
    return best


def gemm_line(words, choice):
    shape = {k: int(v) for k, v in re.findall(r"\b([mnk])=(\d+)", words)}
    flops = 2 * shape["m"] * shape["n"] * shape["k"]
    seconds = float(choice.split()[1])
    text = f"m={shape['m']} n={shape['n']} k={shape['k']} {words.split()[-3]}"
    line = f"{text}: {flops / seconds / 1e12:.1f} TFLOP/s"
    if torch is None:
        return line, seconds
    kind = TYPES.get(words.split()[-3])
    if kind is None:  # codes of eight bits
        return line, seconds
    kind = getattr(torch, kind)
    a = torch.randn(shape["m"], shape["k"], device="cuda").to(kind)
    b = torch.randn(shape["n"], shape["k"], device="cuda").to(kind)
    theirs = best_s(lambda: torch.matmul(a, b.t()))
    return f"{line}, torch.matmul {flops / theirs / 1e12:.1f}", seconds


def attention_line(words, choice):
    s = {k: int(v) for k, v in re.findall(r"\b([a-z]+)=(\d+)\b", words)}
    kind = getattr(torch, TYPES[words.split()[-1]])
    q = torch.randn(s["b"], s["kv"] * s["g"], s["t"], s["d"], device="cuda").to(kind)
    k = torch.randn(s["b"], s["kv"], s["s"], s["d"], device="cuda").to(kind)
    f = torch.nn.functional.scaled_dot_product_attention
    causal = " causal" in words
    theirs = best_s(lambda: f(q, k, k, is_causal=causal, enable_gqa=s["g"] > 1))
    name = "own" if choice.startswith("own") else "cuDNN"
    ours = float(choice.split()[-1])
    return f"attention {words}: {name} {1e6 * ours:.1f} us, torch forward {1e6 * theirs:.1f} us"


def main():
    global torch
    if torch is not None and not torch.cuda.is_available():
        torch = None
    lines = []
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            parts = [p.strip() for p in line.split("|")]
            if len(parts) != 4:
                continue
            if parts[1].startswith("attention"):
                if torch is not None and "gradient" not in parts[1]:
                    lines.append((0, attention_line(parts[1], parts[2])))
            else:
                text, seconds = gemm_line(parts[1], parts[2])
                lines.append((seconds, text))
    for _, text in sorted(lines, reverse=True):
        print(text)


if __name__ == "__main__":
    main()
