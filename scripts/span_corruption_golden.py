#!/usr/bin/env python3
"""Writes tests/data/golden_spans.txt: span corruption as T5 does it (t5/data/preprocessors.py:
random_spans_helper, random_spans_noise_mask, noise_span_to_unique_sentinel), here as masks over
tokens and in pure Python, with the random numbers that src/data/span_corruption.h names.

A line: inputs, tokens, targets, seed, and for each 1,000 of 10,000 samples the FNV-1a hash of all
their inputs and targets; then the first sample itself.
"""
import os

SAMPLES, BLOCK = 10000, 1000
CASES = [(64, 7), (128, 1), (512, 3)]  # inputs, seed
LAST_ID, END = 32099, 1
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data",
                   "golden_spans.txt")


def philox(key, counter):
    k0, k1 = key & M32, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & M32, (a >> 32) ^ c3 ^ k1, a & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0 << 32 | c1


def fnv(data, start=0xCBF29CE484222325):
    h = start
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def name_key(name, seed):
    return fnv(name.encode(), 0xCBF29CE484222325 ^ (seed * 0x9E3779B97F4A7C15 & M64))


def helper(tokens, density=0.15, mean=3.0):
    noise = int(round(tokens * density))
    spans = int(round(noise / mean))
    return (tokens - noise) + spans + 1, noise + spans + 1


def tokens_length(inputs):
    tokens = inputs - 1
    while helper(tokens + 1)[0] <= inputs:
        tokens += 1
    return tokens


def segmentation(items, segments, key, sample):
    first = [i < segments - 1 for i in range(items - 1)]
    for i in range(items - 2, 0, -1):
        u = philox(key, (sample & M32, sample >> 32, i & M32, i >> 32))
        j = u * (i + 1) >> 64
        first[i], first[j] = first[j], first[i]
    ids, segment = [0], 0
    for starts in first:
        segment += starts
        ids.append(segment)
    return [ids.count(s) for s in range(segments)]


def noise_mask(length, seed, sample, density=0.15, mean=3.0):
    noise = min(max(int(round(length * density)), 1), length - 1)
    spans = max(int(round(noise / mean)), 1)
    noise_lengths = segmentation(noise, spans, name_key("spans.noise", seed), sample)
    kept_lengths = segmentation(length - noise, spans, name_key("spans.kept", seed), sample)
    mask = []
    for kept, taken in zip(kept_lengths, noise_lengths):
        mask += [False] * kept + [True] * taken
    return mask


def to_sentinels(tokens, mask):
    """Each run of the mask becomes one sentinel, descending from the last id."""
    out, sentinel, before = [], LAST_ID + 1, False
    for token, noise in zip(tokens, mask):
        if noise and not before:
            sentinel -= 1
            out.append(sentinel)
        elif not noise:
            out.append(token)
        before = noise
    return out + [END]


def sample_of(length, seed, sample):
    tokens = [2 + (7 * sample + 13 * i) % 30000 for i in range(length)]
    mask = noise_mask(length, seed, sample)
    return to_sentinels(tokens, mask), to_sentinels(tokens, [not m for m in mask])


def main():
    with open(OUT, "w") as f:
        for inputs, seed in CASES:
            length = tokens_length(inputs)
            targets = helper(length)[1]
            hashes = []
            for begin in range(0, SAMPLES, BLOCK):
                h = 0xCBF29CE484222325
                for sample in range(begin, begin + BLOCK):
                    source, target = sample_of(length, seed, sample)
                    assert len(source) <= inputs and len(target) == targets
                    h = fnv(b"".join(t.to_bytes(4, "little") for t in source + target), h)
                hashes.append(f"{h:016x}")
            source, target = sample_of(length, seed, 0)
            row = [inputs, length, targets, seed] + hashes + source + target
            f.write(" ".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main()
