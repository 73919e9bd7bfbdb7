#!/usr/bin/env python3
"""Writes tests/kernels/capacity_golden.json: a layer of experts with a capacity, its output and the
gradients of its router's logits and its input. Independent of the program: only Python's own arithmetic,
and gradients by differences.

usage: scripts/capacity_golden.py >tests/kernels/capacity_golden.json

Follows Megatron-LM's moe_utils.py: get_capacity, and apply_router_token_dropping with the policy
`position`, on a map [tokens, experts] of chosen experts. Numbers are multiples of 2^-10, so that they are
the same in float32.
"""
import json
import math
import random

TOKENS, EXPERTS, CHOSEN, HIDDEN, INNER = 11, 5, 2, 4, 3
FACTORS = [0.2, 0.5, 0.75, 1.0, 1.25, 2.5]
STEP = 1e-5


def numbers(rng, *shape, scale=1.0):
    if not shape:
        return round(rng.uniform(-scale, scale) * 1024) / 1024
    return [numbers(rng, *shape[1:], scale=scale) for _ in range(shape[0])]


def get_capacity(tokens, experts, factor):
    return math.ceil((tokens / experts) * factor)


def routed(logits):
    """The map of chosen experts and their renormalized probabilities, [tokens, experts] each."""
    chosen, weights = [], []
    for row in logits:
        exps = [math.exp(z - max(row)) for z in row]
        best = sorted(range(len(row)), key=lambda e: -row[e])[:CHOSEN]
        total = sum(exps[e] for e in best)
        chosen.append([e in best for e in range(len(row))])
        weights.append([exps[e] / total if e in best else 0.0 for e in range(len(row))])
    return chosen, weights


def kept(chosen, capacity):
    """The map without the chosen tokens of an expert, down its column, after the first `capacity`."""
    mask = [row[:] for row in chosen]
    for e in range(EXPERTS):
        rows = [t for t in range(TOKENS) if chosen[t][e]]
        for t in rows[capacity:]:
            mask[t][e] = False
    return mask


def expert(x, up, down):
    hidden = []
    for gate, value in up:
        g = sum(a * b for a, b in zip(gate, x))
        v = sum(a * b for a, b in zip(value, x))
        hidden.append(g / (1 + math.exp(-g)) * v)
    return [sum(a * b for a, b in zip(row, hidden)) for row in down]


def layer(x, logits, mask, up, down):
    """The output with a fixed map: choosing and dropping have no gradient."""
    _, weights = routed(logits)
    out = []
    for t in range(TOKENS):
        y = [0.0] * HIDDEN
        for e in range(EXPERTS):
            if mask[t][e]:
                y = [a + weights[t][e] * b for a, b in zip(y, expert(x[t], up[e], down[e]))]
        out.append(y)
    return out


def gradient(of, at):
    """The derivatives of a function of the rows `at`, by differences."""
    rows = []
    for row in at:
        rows.append([])
        for i, number in enumerate(row):
            row[i] = number + STEP
            more = of()
            row[i] = number - STEP
            less = of()
            row[i] = number
            rows[-1].append((more - less) / (2 * STEP))
    return rows


def main():
    rng = random.Random(20261127)
    x, dy = numbers(rng, TOKENS, HIDDEN), numbers(rng, TOKENS, HIDDEN)
    up = numbers(rng, EXPERTS, INNER, 2, HIDDEN)
    down = numbers(rng, EXPERTS, HIDDEN, INNER)
    logits = numbers(rng, TOKENS, EXPERTS, scale=2.0)
    for row in logits:
        row[1] += 1.5  # the busiest expert
    chosen, _ = routed(logits)
    cases = []
    for factor in FACTORS:
        capacity = get_capacity(TOKENS * CHOSEN, EXPERTS, factor)
        mask = kept(chosen, capacity)

        def product(mask=mask):
            y = layer(x, logits, mask, up, down)
            return sum(a * b for rows in zip(y, dy) for a, b in zip(*rows))

        choices = [[e if mask[t][e] else -1 for e in range(EXPERTS) if chosen[t][e]] for t in range(TOKENS)]
        cases.append({"factor": factor, "capacity": capacity, "kept": choices,
                      "dropped": sum(row.count(-1) for row in choices) / (TOKENS * CHOSEN),
                      "y": layer(x, logits, mask, up, down), "d_logits": gradient(product, logits),
                      "d_x": gradient(product, x)})
    print(json.dumps({"x": x, "dy": dy, "up": up, "down": down, "logits": logits, "cases": cases}))


if __name__ == "__main__":
    main()
