#!/usr/bin/env python3
"""Writes tests/eval/golden_sampling.json: what a plain implementation of the sampling options chooses,
step by step, for random logits. Independent of the program: only Python's own arithmetic.

usage: scripts/sampling_golden.py >tests/eval/golden_sampling.json
"""
import json
import math
import random

VOCABULARY, STEPS = 24, 20
CASES = [
    {},
    {"temperature": 0},
    {"temperature": 0.6},
    {"temperature": 1.7, "top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.15},
    {"temperature": 1.3, "top_k": 12, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 0, "repetition_penalty": 1.5},
    {"temperature": 0, "frequency_penalty": 0.75, "presence_penalty": 0.5},
    {"temperature": 0.9, "repetition_penalty": 1.2, "frequency_penalty": -0.3, "presence_penalty": 1.5},
    {"temperature": 0, "logit_bias": {"3": 100, "7": -100}},
    {"temperature": 1, "logit_bias": {"0": 2.5, "5": -1.5, "11": 4}, "repetition_penalty": 0.8, "top_p": 0.8},
]


def adjusted(logits, prompt, output, o):
    z = list(logits)
    rho = o.get("repetition_penalty", 1)
    for token in set(prompt) | set(output):
        z[token] = z[token] / rho if z[token] > 0 else z[token] * rho
    for token in set(output):
        z[token] -= output.count(token) * o.get("frequency_penalty", 0) + o.get("presence_penalty", 0)
    for token, bias in o.get("logit_bias", {}).items():
        z[int(token)] += bias
    return z


def distribution(z, o):
    """Returns [(probability, token)], descending, of what the options leave."""
    t = o.get("temperature", 1)
    order = sorted(range(len(z)), key=lambda i: (-z[i], i))
    if t == 0:
        return [(1.0, order[0])]
    if o.get("top_k", 0) > 0:
        order = order[:o["top_k"]]
    w = [math.exp((z[i] - z[order[0]]) / t) for i in order]
    p = [x / sum(w) for x in w]
    kept, mass = 0, 0.0
    while kept < len(p) and (kept == 0 or mass < o.get("top_p", 1)):
        mass += p[kept]
        kept += 1
    if o.get("top_p", 1) == 1:
        kept = len(p)
    kept = sum(1 for x in p[:kept] if x >= o.get("min_p", 0) * p[0])
    total = sum(p[:kept])
    return [(x / total, i) for x, i in zip(p[:kept], order)]


def choose(pairs, u):
    mass = 0.0
    for p, token in pairs:
        mass += p
        if mass > u:
            return token
    return pairs[-1][1]


def main():
    rng = random.Random(7)
    out = []
    for options in CASES:
        prompt = [rng.randrange(VOCABULARY) for _ in range(6)]
        steps, output = [], []
        for _ in range(STEPS):
            # Multiples of 1/64 and of 1/1024 are exact in every float type.
            logits = [rng.randrange(-256, 257) / 64 for _ in range(VOCABULARY)]
            u = rng.randrange(1024) / 1024
            token = choose(distribution(adjusted(logits, prompt, output, options), options), u)
            log_z = math.log(sum(math.exp(x) for x in logits))
            steps.append({"logits": logits, "u": u, "token": token, "log_probability": logits[token] - log_z})
            output.append(token)
        out.append({"options": options, "prompt": prompt, "steps": steps})
    print("[" + ",\n".join(json.dumps(case) for case in out) + "]")


if __name__ == "__main__":
    main()
