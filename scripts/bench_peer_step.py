#!/usr/bin/env python3
"""One training run of PyTorch and transformers, one mode a process: what bench_peers.py measures.

Prints one JSON object: tokens_per_s (median of the timed steps), step_s, first_step_at (clock time at
the end of the first step), loss. The step is what a trainer does: forward, backward, clipping, AdamW,
and reading the loss.
"""
import argparse
import json
import statistics
import time

import numpy
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

CHUNK_TOKENS = 256  # in a chunk of the loss


def make_model(o):
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(o.model, attn_implementation="sdpa")
    return AutoModelForCausalLM.from_config(config).float().train()


def whole_loss(model, x, labels):
    logits = model(input_ids=x, use_cache=False).logits
    return F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.reshape(-1))


def chunked_loss(model, x, labels):
    """Logits of a few tokens at a time, computed again in the backward."""
    hidden = model.base_model(input_ids=x, use_cache=False).last_hidden_state
    hidden, labels = hidden.reshape(-1, hidden.size(-1)), labels.reshape(-1)

    def part(h, y):
        return F.cross_entropy(model.get_output_embeddings()(h).float(), y, reduction="sum")

    pairs = zip(hidden.split(CHUNK_TOKENS), labels.split(CHUNK_TOKENS))
    return sum(checkpoint(part, h, y, use_reentrant=False) for h, y in pairs) / labels.numel()


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a folder with config.json")
    for name in ("batch", "tokens", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--bin", required=True, help="16-bit token ids")
    return parser


def batches(o):
    """number → (inputs, labels), from one place of the text after the other."""
    ids = numpy.memmap(o.bin, dtype=numpy.uint16, mode="r")

    def batch(number):
        size = o.batch * (o.tokens + 1)
        start = number * size % (len(ids) - size)
        part = torch.from_numpy(ids[start:start + size].astype(numpy.int64))
        part = part.view(o.batch, o.tokens + 1)
        return part[:, :-1], part[:, 1:]

    return batch


def finish_step(model, update, loss):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    update.step()
    update.zero_grad(set_to_none=True)
    return loss.item()


def timed(step, steps):
    """Measures step(0), step(1), …: the median of all but the first two, as a dictionary."""
    loss = step(0)
    first_step_at = time.time()
    times = []
    for number in range(1, steps + 1):
        before = time.perf_counter()
        loss = step(number)
        times.append(time.perf_counter() - before)
    step_s = statistics.median(times[1:] if len(times) > 2 else times)
    return {"step_s": step_s, "first_step_at": first_step_at, "loss": loss}


def main():
    parser = arguments()
    parser.add_argument("--precision", choices=("fp32", "bf16"), required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--chunked", action="store_true")
    o = parser.parse_args()

    batch = batches(o)
    model = make_model(o)
    update = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                               fused=True)
    loss_function = chunked_loss if o.chunked else whole_loss
    if o.compile:
        loss_function = torch.compile(loss_function)

    def step(number):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.precision == "bf16"):
            loss = loss_function(model, *batch(number))
        return finish_step(model, update, loss)

    took = timed(step, o.steps)
    print(json.dumps({"tokens_per_s": o.batch * o.tokens / took["step_s"], **took}))


if __name__ == "__main__":
    main()
