#!/usr/bin/env python3
"""Tests what scripts/check_qlora.py compares with, without a run: names of tensors, faults in stored
tensors, and the layers of bitsandbytes if it is installed. Exits with 77 without PEFT or NumPy."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
try:
    import check_qlora as qlora  # exits with 77 without PEFT
    import numpy as np
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)

SUFFIXES = (".nf4", ".nf4_scales", ".nf4_levels")


def base_of(family):
    torch.manual_seed(1)
    model = qlora.FAMILIES[family][0]().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.1)
    return model


def stored(weights):
    """A checkpoint with these weights, in shapes of its own."""
    return {name + suffix: tensor.reshape(1, -1)
            for name, tensors in weights.items() for suffix, tensor in zip(SUFFIXES, tensors)}


class Tensors(unittest.TestCase):
    def setUp(self):
        self.weights = qlora.quantized_weights(base_of("llama"))
        self.checkpoint = stored(self.weights) | {"embed.weight": np.zeros(3, np.float32)}

    def faults(self):
        return qlora.differing_tensors(self.checkpoint, self.weights)

    def test_names_of_parts(self):
        self.assertEqual(len(self.weights), 14)
        for name in ("layer0.attn.qkv.q", "layer1.attn.out", "layer1.mlp.up.gate", "layer0.mlp.down"):
            self.assertIn(name, self.weights)
        self.assertEqual(self.faults(), [])

    def test_one_bit(self):
        name = "layer1.mlp.up.gate.nf4"
        self.checkpoint[name] = self.checkpoint[name].copy()
        self.checkpoint[name][0, 77] ^= 16
        self.assertEqual(self.faults(), [f"{name} differs in 1 bytes, the first at 77"])

    def test_missing_and_other_tensors(self):
        del self.checkpoint["layer0.attn.qkv.k.nf4_levels"]
        self.checkpoint["layer0.attn.qkv.weight"] = self.checkpoint["layer0.attn.bias.nf4"] = np.zeros(1)
        self.assertEqual(self.faults(), ["layer0.attn.bias.nf4 is not expected",
                                         "layer0.attn.qkv.k.nf4_levels is missing",
                                         "layer0.attn.qkv.weight is stored"])

    def test_another_type(self):
        name = "layer0.mlp.down.nf4_scales"
        self.checkpoint[name] = self.checkpoint[name].astype(np.int32)
        self.assertEqual(len(self.faults()), 1)


class Models(unittest.TestCase):
    def test_only_linear_weights_of_layers_are_replaced(self):
        base = base_of("neox")
        weights = qlora.quantized_weights(base)
        other = dict(qlora.dequantized(base, weights).named_parameters())
        linear = {id(module.weight) for _, module in qlora.linear_weights(base)}
        self.assertEqual(len(linear), 8)
        for name, p in base.named_parameters():
            self.assertEqual(torch.equal(p, other[name]), id(p) not in linear, name)

    @unittest.skipIf(qlora.bitsandbytes is None, "bitsandbytes is not installed")
    def test_layers_of_bitsandbytes(self):
        base = base_of("qwen2")  # has biases
        weights = qlora.quantized_weights(base)
        tokens = qlora.check_peft.tokens_of(2)
        expected = qlora.logits_of(qlora.dequantized(base, weights), tokens)
        loaded = qlora.logits_of(qlora.in_four_bits(base, weights), tokens)
        self.assertLess(qlora.distance(loaded, expected), 1e-5)
        own = qlora.distance(qlora.logits_of(qlora.in_four_bits(base), tokens), expected)
        self.assertLess(own, qlora.BOUNDS["own"])
        self.assertGreater(qlora.distance(qlora.logits_of(base, tokens), expected), own)


if __name__ == "__main__":
    unittest.main()
