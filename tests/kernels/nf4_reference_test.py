#!/usr/bin/env python3
"""Tests scripts/nf4_reference.py on numbers computed by hand, and that tests/golden/nf4.safetensors is
what it computes. Exits with 77 without NumPy."""
import json
import pathlib
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("numpy is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import nf4_reference as nf4  # noqa: E402

EXAMPLE = [0.1, -0.4, 0.05, 0.8, -1.6, 0, 0.3, -0.02]


def golden():
    """{name: array} of the safetensors file."""
    raw = (ROOT / "tests/golden/nf4.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    types = {"F32": "<f4", "U8": "u1"}
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(raw[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class Nf4(unittest.TestCase):
    def test_the_example(self):
        w = np.zeros(64, np.float32)
        w[:8] = EXAMPLE
        codes, scales, levels = nf4.quantize(w)
        self.assertEqual(codes[:4].tolist(), [0x84, 0x7c, 0x07, 0x97])
        self.assertEqual(scales.tolist(), [127])
        self.assertEqual(levels.tolist(), [np.float32(1.6), 0])
        values = nf4.dequantize(codes, scales, levels)
        expected = [0.12732849, -0.45510623, 0, 0.70513576, -1.6, 0, 0.25748834, 0]
        np.testing.assert_allclose(values[:8], expected, atol=1e-7)

    def test_thresholds_are_midpoints_up_to_an_ulp(self):
        middle = ((nf4.VALUES[1:].astype(float) + nf4.VALUES[:-1]) / 2).astype(np.float32)
        ulps = nf4.THRESHOLDS.view(np.int32) - middle.view(np.int32)
        self.assertEqual(np.abs(ulps).max(), 1)
        # A conversion by way of an f64 gives other bits for this one.
        self.assertNotEqual(nf4.THRESHOLDS[0], np.float32(-0.8480964004993439))

    def test_the_scale_map(self):
        scale_map = nf4.SCALE_MAP
        self.assertEqual(len(scale_map), 256)
        self.assertTrue((np.diff(scale_map) > 0).all())
        self.assertEqual(((scale_map > 0).sum(), (scale_map < 0).sum()), (128, 127))
        np.testing.assert_array_equal(scale_map[:127], -scale_map[128:255][::-1])
        np.testing.assert_array_equal(scale_map[127:131], np.float32([0, 5.5e-7, 3.25e-6, 7.75e-6]))
        np.testing.assert_array_equal(scale_map[254:], np.float32([0.99296875, 1]))

    def test_scales_in_two_blocks(self):
        # 256 scales of 0.5 and 1.5 in turn, then 3 of 1: the mean is 1, the factors are 0.5 and 0.
        own = np.concatenate([np.tile(np.float32([0.5, 1.5]), 128), np.ones(3, np.float32)])
        w = np.repeat(own, 64)
        codes, scales, levels = nf4.quantize(w)
        self.assertEqual(levels.tolist(), [1, 0.5, 0])
        self.assertEqual(nf4.levels_of(own.size), 3)
        self.assertEqual(scales[:4].tolist(), [0, 255, 0, 255])
        self.assertEqual(scales[256:].tolist(), [127] * 3)
        self.assertEqual(set(codes.tolist()), {0xff})
        values = nf4.dequantize(codes, scales, levels).reshape(-1, 64)[:, 0]
        self.assertEqual(values[1], 1.5)
        self.assertEqual(values[0], np.float32(1 + nf4.SCALE_MAP[0] * np.float32(0.5)))
        self.assertEqual(values[256:].tolist(), [1] * 3)

    def test_zeros(self):
        codes, scales, levels = nf4.quantize(np.zeros(128))
        self.assertEqual(set(codes.tolist()), {0x77})
        self.assertEqual((scales.tolist(), levels.tolist()), ([127, 127], [0, 0]))
        self.assertFalse(nf4.dequantize(codes, scales, levels).any())

    def test_rounding_to_bf16(self):
        x = np.float32([1, 1 + 2**-8, 1 + 2**-8 + 2**-20, 1 + 3 * 2**-8, -1 - 2**-8])
        self.assertEqual(nf4.as_bf16(x).tolist(), [1, 1, 1 + 2**-7, 1 + 2**-6, -1])

    def test_the_golden_file(self):
        tensors = golden()
        for name in ("many", "one", "zeros", "example"):
            w = tensors[f"{name}.w"]
            codes, scales, levels = nf4.quantize(w)
            values = nf4.dequantize(codes, scales, levels, w.shape)
            for part, tensor in (("codes", codes), ("scales", scales), ("levels", levels), ("values", values)):
                self.assertEqual(tensor.tobytes(), tensors[f"{name}.{part}"].tobytes(), f"{name}.{part}")


if __name__ == "__main__":
    unittest.main()
