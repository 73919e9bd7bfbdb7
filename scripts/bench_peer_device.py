#!/usr/bin/env python3
"""PyTorch, compiled, on the model and batch of one of our runs, for comparison in gpu_check.sh.

    scripts/bench_peer_device.py RUN_DIR/run.yaml [--device cuda|cpu] [--steps 12]

Prints one JSON object: tokens_per_s and step_s (median of the later steps), loss. The model is
written here in plain PyTorch (GPT-2, GPT-NeoX or LLaMA by the run's sizes): weights and AdamW's
moments in f32, GEMMs in bf16 by autocast, attention by scaled_dot_product_attention, the whole of
forward and loss compiled. Ids are random: speed does not depend on them.
"""
import argparse
import json
import re
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


def section(text, name):
    """key → value of a section of a run file; the outer, first one of duplicate keys."""
    block = re.search(rf"^{name}:(.*(?:\n[ \t]+.*)*)", text, re.M)
    return dict(reversed(re.findall(r"(\w+): *([^,\s}]+)", block.group(1)))) if block else {}


class Norm(nn.Module):
    def __init__(self, width, centered):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if centered else None

    def forward(self, x):
        if self.bias is not None:
            return F.layer_norm(x, x.shape[-1:], self.gain, self.bias)
        return F.rms_norm(x, x.shape[-1:], self.gain, 1e-5)


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        bias, d = o.family != "llama", o.hidden // o.heads
        self.norms = nn.ModuleList(Norm(o.hidden, bias) for _ in range(2))
        self.qkv = nn.Linear(o.hidden, (o.heads + 2 * o.kv_heads) * d, bias=bias)
        self.out = nn.Linear(o.hidden, o.hidden, bias=bias)
        self.up = nn.Linear(o.hidden, o.feed_forward * (1 if bias else 2), bias=bias)
        self.down = nn.Linear(o.feed_forward, o.hidden, bias=bias)

    def attend(self, x, turn):
        o = self.o
        b, t, _ = x.shape
        d = o.hidden // o.heads
        q, k, v = self.qkv(x).split((o.hidden, o.kv_heads * d, o.kv_heads * d), -1)
        q = q.view(b, t, o.heads, d).transpose(1, 2)
        k, v = (y.view(b, t, o.kv_heads, d).transpose(1, 2) for y in (k, v))
        if turn is not None:
            q, k = rotated(q, turn), rotated(k, turn)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=o.kv_heads < o.heads)
        return self.out(y.transpose(1, 2).reshape(b, t, o.hidden))

    def feed(self, x):
        if self.o.family == "llama":
            gate, up = self.up(x).chunk(2, -1)
            return self.down(F.silu(gate) * up)
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.o.family == "gpt2" else "none"))

    def forward(self, x, turn):
        if self.o.family == "neox":
            return x + self.attend(self.norms[0](x), turn) + self.feed(self.norms[1](x))
        x = x + self.attend(self.norms[0](x), turn)
        return x + self.feed(self.norms[1](x))


def rotated(x, turn):
    cosine, sine = turn
    r = cosine.shape[-1]
    head, rest = x[..., :r], x[..., r:]
    a, b = head.chunk(2, -1)
    return torch.cat((head * cosine + torch.cat((-b, a), -1) * sine, rest), -1).to(x.dtype)


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.o = o
        self.words = nn.Embedding(o.vocabulary, o.hidden)
        self.places = nn.Embedding(o.tokens, o.hidden) if o.family == "gpt2" else None
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.last = Norm(o.hidden, o.family != "llama")
        self.head = nn.Linear(o.hidden, o.vocabulary, bias=False)
        if o.tied:
            self.head.weight = self.words.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        if o.family != "gpt2":
            r = int(o.hidden // o.heads * o.rotary_pct) // 2 * 2
            angle = torch.arange(o.tokens)[:, None] / o.rope_theta ** (torch.arange(0, r, 2) / r)
            angle = torch.cat((angle, angle), -1)
            self.register_buffer("cosine", angle.cos())
            self.register_buffer("sine", angle.sin())

    def forward(self, ids, labels):
        x = self.words(ids)
        turn = None
        if self.places is not None:
            x = x + self.places.weight
        else:
            turn = (self.cosine, self.sine)
        for layer in self.layers:
            x = layer(x, turn)
        logits = self.head(self.last(x))
        return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def sizes(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    model, batch, data = (section(text, name) for name in ("model", "batch", "data"))
    o = argparse.Namespace(family=model["family"], tied=model.get("tied_embeddings") == "true")
    for name in ("layers", "hidden", "heads", "feed_forward", "vocabulary"):
        setattr(o, name, int(model[name]))
    multiple = int(model["vocabulary_multiple"])
    o.vocabulary = -(-o.vocabulary // multiple) * multiple
    o.rotary_pct, o.rope_theta = float(model["rotary_pct"]), float(model["rope_theta"])
    o.kv_heads = int(model.get("kv_heads", 0)) or o.heads
    o.batch, o.micro = int(batch["global"]), int(batch["micro"])
    o.tokens = int(data.get("sequence_length", 0)) or int(model["context"])
    if o.family not in ("gpt2", "neox", "llama"):
        raise SystemExit(f"{path}: this script has no PyTorch model of family {o.family}")
    return o


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=12)
    a = parser.parse_args()
    o = sizes(a.run)

    torch.manual_seed(0)
    with torch.device(a.device):
        model = Model(o)
        ids = torch.randint(o.vocabulary, (o.batch, o.tokens + 1))
    update = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1,
                               fused=True)
    forward = torch.compile(model)

    def step():
        loss = 0
        for first in range(0, o.batch, o.micro):
            part = ids[first:first + o.micro]
            with torch.autocast(a.device, dtype=torch.bfloat16):
                each = forward(part[:, :-1], part[:, 1:]) * len(part) / o.batch
            each.backward()
            loss = loss + each.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        update.zero_grad(set_to_none=True)
        return loss.item()  # as a trainer reads it; waits for the device

    times, loss = [], 0.0
    for _ in range(a.steps):
        before = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - before)
    step_s = statistics.median(times[len(times) // 2:])
    print(json.dumps({"tokens_per_s": o.batch * o.tokens / step_s, "step_s": step_s, "loss": loss}))


if __name__ == "__main__":
    main()
