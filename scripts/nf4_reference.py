"""NF4 with double quantization (src/kernels/nf4.h) in NumPy. Independent of the program: thresholds
are counted and distances are compared as the definition states it, without its tables and shortcuts.
"""
from fractions import Fraction

import numpy as np

BLOCK, SCALE_BLOCK = 64, 256

VALUES = np.array([
    -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1], np.float32)


def nearest_f32(digits):
    """The f32 nearest to a decimal number, as a C++ literal is. By way of an f64 it is rounded twice, and
    some thresholds are so near to the middle of two f32 that this gives the other one."""
    near = np.float32(digits)
    return min((near, np.nextafter(near, np.float32(-2)), np.nextafter(near, np.float32(2))),
               key=lambda x: abs(Fraction(float(x)) - Fraction(digits)))


THRESHOLDS = np.array([nearest_f32(digits) for digits in (
    "-0.8480964004993439", "-0.6106329262256622", "-0.4599952697753906", "-0.33967943489551544",
    "-0.23460740596055984", "-0.13791173323988914", "-0.045525018125772476", "0.03979014977812767",
    "0.1202552504837513", "0.2035212516784668", "0.2920137718319893", "0.3893125355243683",
    "0.5016634166240692", "0.6427869200706482", "0.8614784181118011")], np.float32)


def scale_map():
    """The 256 values of scale codes, ascending: 7 decades of 2^i centers, their negatives, 0 and 1."""
    positive = []
    for i in range(7):
        edges = [Fraction(1, 10) + Fraction(9, 10) * k / 2**i for k in range(2**i + 1)]
        positive += [(a + b) / 2 * Fraction(10)**(i - 6) for a, b in zip(edges, edges[1:])]
    return np.array(sorted([-x for x in positive] + [Fraction(0)] + positive + [Fraction(1)]), float
                    ).astype(np.float32)


SCALE_MAP = scale_map()


def levels_of(blocks):
    return 1 + -(-blocks // SCALE_BLOCK)


def quantize(w):
    """(codes [n/2], scales [n/64], levels) of a tensor of f32."""
    x = np.ascontiguousarray(w, np.float32).reshape(-1, BLOCK)
    own = np.abs(x).max(axis=1)
    ratio = x / np.where(own > 0, own, np.float32(1))[:, None]
    code = (ratio[:, :, None] > THRESHOLDS).sum(axis=2).astype(np.uint8).reshape(-1)
    # accumulate() adds in the order of the blocks, sum() does not.
    mean = np.float32(np.add.accumulate(own.astype(np.float64))[-1] / own.size)
    levels, scales = [mean], np.zeros(own.size, np.uint8)
    for first in range(0, own.size, SCALE_BLOCK):
        rest = own[first:first + SCALE_BLOCK] - mean
        factor = np.abs(rest).max()
        levels.append(factor)
        ratio = rest / factor if factor > 0 else np.zeros_like(rest)
        # argmin() is the first of equal distances. In f64, distances near a tie are exact.
        distance = np.abs(ratio.astype(np.float64)[:, None] - SCALE_MAP.astype(np.float64))
        scales[first:first + SCALE_BLOCK] = distance.argmin(axis=1)
    return code[0::2] << 4 | code[1::2], scales, np.array(levels, np.float32)


def dequantize(codes, scales, levels, shape=None):
    """The weights in f32."""
    codes, scales = np.asarray(codes).reshape(-1), np.asarray(scales).reshape(-1)
    factor = np.repeat(levels[1:], SCALE_BLOCK)[:scales.size]
    scale = SCALE_MAP[scales] * factor + levels[0]  # two operations of NumPy, so two roundings
    code = np.stack([codes >> 4, codes & 15], axis=1).reshape(-1, BLOCK)
    w = VALUES[code] * scale[:, None]
    return w.reshape(shape if shape is not None else -1)


def as_bf16(x):
    """x rounded to the nearest bf16, ties to even, as f32. x is finite."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
