#!/usr/bin/env python3
"""Runs with `lora.quantize: nf4` against a NumPy implementation of NF4, PEFT and bitsandbytes.

  bits     the checkpoint stores each linear weight of a layer as the codes, scales and levels that
           scripts/nf4_reference.py computes from the base, to the last bit, and not as a weight
  train    steps of AdamW from a PEFT folder: losses and adapters are those of PEFT on a base whose
           linear weights are the dequantized ones
  logits   of the run: those of PEFT on that base with the exported adapters
  loaded   the same in bitsandbytes' 4-bit layers, which read the codes, scales and levels of the run
  own      the same in bitsandbytes' 4-bit layers, which quantize the base themselves. Their CPU version
           does not always choose the nearest scale code, so these logits differ more

The last two are left out where bitsandbytes is not installed. A distance is relative to the largest
value. It is at most 1e-5 (`own`: 1e-2), or for the steps 4 times that of PEFT in f32 from PEFT in f64 where
that is more: rounding grows with each step, in Gemma 2 by much, and ours differs from PEFT's.

For an existing run of another precision than fp32, the bound is 4 times its rounding.

usage: check_qlora.py [build/tessera] [--family NAME] [--kind KIND] [--steps N]
       check_qlora.py [build/tessera] --base FOLDER --run RUN      an existing run of a Hugging Face folder
(needs what check_peft.py needs, numpy and, if possible, bitsandbytes; ends with exit code 77 without peft)
"""
import argparse
import copy
import pathlib
import sys
import tempfile

import check_peft  # ends here without peft
import numpy as np
import peft
import torch
import transformers

import nf4_reference as nf4
from check_peft import distance, like_llama, logits_of, our_logits, run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import tessera  # noqa: E402

try:
    import bitsandbytes
except ImportError:
    bitsandbytes = None

BOUNDS = {"losses": 1e-5, "norms": 1e-5, "adapters": 1e-5, "logits": 1e-5, "loaded": 1e-5, "own": 1e-2}
# The relative rounding of what a run of that precision computes; PEFT computes in f32 here.
ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}
# Our parts of a layer's linear weights, by the modules of a layer of transformers. The rows of a part
# are in the order of the module's.
LLAMA = {"self_attn.q_proj": "attn.qkv.q", "self_attn.k_proj": "attn.qkv.k",
         "self_attn.v_proj": "attn.qkv.v", "self_attn.o_proj": "attn.out",
         "mlp.gate_proj": "mlp.up.gate", "mlp.up_proj": "mlp.up.up", "mlp.down_proj": "mlp.down"}
NEOX = {"attention.query_key_value": "attn.qkv", "attention.dense": "attn.out",
        "mlp.dense_h_to_4h": "mlp.up", "mlp.dense_4h_to_h": "mlp.down"}
# The inputs of all linear weights are multiples of 64. Those of the MLP have more than 256 blocks.
SIZES = dict(hidden_size=128, intermediate_size=192)
FAMILIES = {
    "llama": like_llama("Llama", **SIZES),
    "mistral": like_llama("Mistral", sliding_window=None, **SIZES),
    "qwen2": like_llama("Qwen2", **SIZES),
    "qwen3": like_llama("Qwen3", head_dim=16, **SIZES),
    "gemma2": like_llama("Gemma2", head_dim=16, query_pre_attn_scalar=9, **SIZES),
    "olmo2": like_llama("Olmo2", **SIZES),
    "neox": (lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=check_peft.VOCABULARY, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=check_peft.TOKENS, rotary_pct=0.5, bos_token_id=0, eos_token_id=0,
        **SIZES)), check_peft.FAMILIES["neox"][1]),
}
KINDS = ("lora", "rslora")


def linear_weights(model):
    """(name without its suffix in our checkpoints, module) of all linear weights of the layers."""
    names, layers = (NEOX, model.gpt_neox.layers) if hasattr(model, "gpt_neox") else (LLAMA, model.model.layers)
    return [(f"layer{i}.{ours}", layer.get_submodule(theirs))
            for i, layer in enumerate(layers) for theirs, ours in names.items()]


def quantized_weights(model):
    """{name in our checkpoints: (codes, scales, levels)} of the model's weights."""
    return {name: nf4.quantize(module.weight.detach().float().numpy())
            for name, module in linear_weights(model)}


def dequantized(model, weights):
    """A copy of the model with dequantized linear weights."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, module in linear_weights(model):
            module.weight.copy_(torch.from_numpy(nf4.dequantize(*weights[name], module.weight.shape)))
    return model


def differing_tensors(checkpoint, weights):
    """A sentence per stored tensor that is not the expected one."""
    expected, faults = {}, []
    for name, tensors in weights.items():
        expected |= {name + suffix: tensor
                     for suffix, tensor in zip((".nf4", ".nf4_scales", ".nf4_levels"), tensors)}
        for whole in {name, name.rsplit(".", 1)[0]}:
            if f"{whole}.weight" in checkpoint:
                faults.append(f"{whole}.weight is stored")
    for name in checkpoint:
        if ".nf4" in name and name not in expected:
            faults.append(f"{name} is not expected")
    for name, tensor in expected.items():
        if name not in checkpoint:
            faults.append(f"{name} is missing")
            continue
        stored = checkpoint[name].reshape(-1)
        if stored.dtype != tensor.dtype or stored.size != tensor.size:
            faults.append(f"{name} is {stored.size} {stored.dtype}, expected {tensor.size} {tensor.dtype}")
        elif stored.tobytes() != tensor.tobytes():
            differ = np.flatnonzero(stored.view(np.uint8) != tensor.view(np.uint8))
            faults.append(f"{name} differs in {differ.size} bytes, the first at {differ[0]}")
    return sorted(set(faults))


def in_four_bits(model, weights=None):
    """A copy of the model with bitsandbytes' layers, which hold the weights of that quantization, or of
    their own."""
    model = copy.deepcopy(model)
    for name, module in linear_weights(model):
        layer = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, module.bias is not None,
                                           compute_dtype=torch.float32, compress_statistics=True,
                                           quant_type="nf4")
        layer.weight = bitsandbytes.nn.Params4bit(module.weight.detach().clone(), requires_grad=False,
                                                  blocksize=nf4.BLOCK, compress_statistics=True,
                                                  quant_type="nf4").to("cpu")
        layer.bias = module.bias
        layer.support_avx512bf16_for_cpu = False  # on such CPUs, layers in evaluation multiply in bf16
        if weights is not None:
            codes, scales, levels = (torch.from_numpy(t.copy()) for t in weights[name])
            layer.weight.data = codes.reshape(layer.weight.shape)
            state = layer.weight.quant_state
            state.absmax, state.offset = scales, levels[0]
            state.state2.absmax, state.state2.code = levels[1:], torch.from_numpy(nf4.SCALE_MAP)
        set_module(model, module, layer)
    model.is_loaded_in_4bit = True  # PEFT's adapters of such layers are other modules
    return model.eval()


def set_module(model, old, new):
    for parent in model.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)


def check_run(options, base, run_folder, work, report):
    """The stored tensors and the logits of a run that started from `base`, a model of transformers."""
    weights = quantized_weights(base)
    checkpoint = tessera.Checkpoint(run_folder)
    rounding = ROUNDING.get(checkpoint.config.get("precision"), 0.0)
    faults = differing_tensors(checkpoint, weights)
    for fault in faults[:5]:
        print(f"  {fault}")
    report("tensors that differ", len(faults))
    run(options, "checkpoint", "export", run_folder, "--adapter", "--to", work / "exported")
    torch.manual_seed(3)
    tokens = torch.randint(1, base.config.vocab_size, (4, min(32, base.config.max_position_embeddings)))
    ours = our_logits(options, run_folder, tokens, work)

    def of(model):
        return logits_of(peft.PeftModel.from_pretrained(model, work / "exported").eval(), tokens)

    report("logits", distance(ours, of(dequantized(base, weights))), rounding)
    # The distance that quantization makes, to see that the others are small.
    report("(not quantized)", distance(of(copy.deepcopy(base)), ours))
    if bitsandbytes is not None:
        report("loaded", distance(of(in_four_bits(base, weights)), ours), rounding)
        report("own", distance(of(in_four_bits(base)), ours), rounding)


class Report:
    """Collects what was measured, and what exceeds its bound."""

    def __init__(self):
        self.told, self.faults = [], []

    def __call__(self, what, value, rounding=0.0):
        self.told.append(f"{what} {value}" if isinstance(value, int) else f"{what} {value:.1e}")
        if not what.startswith("(") and not value <= max(BOUNDS.get(what, 0), 4 * rounding):
            self.faults.append(what)

    def print(self, title):
        print(f"{title}: {', '.join(self.told)}"
              f"{'  DIFFER: ' + ', '.join(self.faults) if self.faults else ''}", flush=True)
        return not self.faults


def check(options, family, kind, which, work):
    make, targets = FAMILIES[family]
    torch.manual_seed(7)
    base = make().eval()
    with torch.no_grad():
        for p in base.parameters():
            p.normal_(0, 0.2)
    base.save_pretrained(work / "base")
    check_peft.adapters(copy.deepcopy(base), targets[which], kind, 0.1).save_pretrained(work / "peft")
    dequantized(base, quantized_weights(base)).save_pretrained(work / "dequantized")
    report = Report()
    check_peft.train(options, work, options.steps, report, ", quantize: nf4", "dequantized")
    check_run(options, base, work / "tuned", work, report)
    return report.print(f"{family} {kind} {','.join(targets[which])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera", nargs="?", default="build/tessera")
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--base", type=pathlib.Path, help="Hugging Face folder that --run started from")
    parser.add_argument("--run", type=pathlib.Path, help="run directory or checkpoint to check")
    options = parser.parse_args()
    if (options.base is None) != (options.run is None):
        parser.error("--base and --run need each other")
    if bitsandbytes is None:
        print("bitsandbytes is not installed: its layers are not compared")
    if options.run:
        base = transformers.AutoModelForCausalLM.from_pretrained(options.base, dtype=torch.float32).eval()
        report = Report()
        with tempfile.TemporaryDirectory() as work:
            check_run(options, base, options.run, pathlib.Path(work), report)
        return not report.print(str(options.run))
    failed = cases = 0
    for family in options.family or FAMILIES:
        for kind in options.kind or KINDS:
            for which in (0, 1):
                with tempfile.TemporaryDirectory() as work:
                    failed += not check(options, family, kind, which, pathlib.Path(work))
                cases += 1
    print(f"{failed} of {cases} runs differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
