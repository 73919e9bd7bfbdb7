#!/usr/bin/env python3
"""Makes tests/golden/nf4.safetensors: NF4 of tensors by scripts/nf4_reference.py.

    VENV/bin/python scripts/nf4_golden.py [FOLDER]      (numpy, safetensors)

tests/golden/README.md describes each tensor.
"""
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

import nf4_reference as nf4

SEED = 20261127


def near_thresholds():
    """Two blocks of the thresholds, their neighbors and the values, times 2^-6 and 3 · 2^-6."""
    neighbors = [np.nextafter(nf4.THRESHOLDS, np.float32(to)) for to in (-2, 2)]
    numbers = np.concatenate([nf4.THRESHOLDS, *neighbors, nf4.VALUES[1:], np.float32([0, -0.0, -1, 1])])
    return np.stack([numbers, numbers * np.float32(3)]) * np.float32(2**-6)


def cases():
    random = np.random.default_rng(SEED)
    # More than 256 blocks, of different sizes. Some are all zeros, subnormal, or of one number.
    blocks = random.standard_normal((270, nf4.BLOCK)) * np.exp(random.normal(0, 0.6, (270, 1))) * 0.02
    blocks = blocks.astype(np.float32)
    blocks[:2] = near_thresholds()
    blocks[5] = blocks[200:203] = 0
    blocks[9] *= np.float32(1e-38)
    blocks[11] = -0.25
    one = random.standard_normal((1, nf4.BLOCK)).astype(np.float32)
    example = np.zeros((1, nf4.BLOCK), np.float32)
    example[0, :8] = 0.1, -0.4, 0.05, 0.8, -1.6, 0, 0.3, -0.02
    return {"many": blocks.reshape(10, -1), "one": one, "zeros": np.zeros((3, nf4.BLOCK), np.float32),
            "example": example}


def main():
    tensors = {}
    for name, w in cases().items():
        codes, scales, levels = nf4.quantize(w)
        values = nf4.dequantize(codes, scales, levels, w.shape)
        for part, tensor in (("w", w), ("codes", codes), ("scales", scales), ("levels", levels),
                             ("values", values)):
            tensors[f"{name}.{part}"] = tensor
    save_file(tensors, pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden") / "nf4.safetensors")


if __name__ == "__main__":
    main()
