#!/usr/bin/env python3
"""Makes tests/golden/: what PyTorch computes for each op and for a tiny model of each family.

    VENV/bin/python scripts/parity_golden.py [FOLDER]      (torch, transformers, safetensors)

All reference values are computed in float64 and rounded to float32; losses and norms stay float64.
Inputs and weights are float32 numbers. tests/golden/README.md describes each tensor.
"""
import json
import pathlib
import random as plain_random
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers.optimization import Adafactor
from transformers.models.t5.modeling_t5 import T5Attention

import parity_reference as reference

SEED = 20261121
MODELS = {
    "neox": dict(layers=2, hidden=48, heads=3, vocabulary=288, context=32),
    "llama": dict(layers=2, hidden=48, heads=6, vocabulary=281, context=32),
    "llama-grouped": dict(layers=2, hidden=48, heads=6, vocabulary=281, context=32),
    "gpt2": dict(layers=2, hidden=48, heads=3, vocabulary=275, context=32),
}
ROWS, TOKENS, PAIR_TARGET = 3, 24, 14
PAIR_SPREAD = 0.1  # scores are not scaled: larger weights make a softmax that rounding decides
STEPS, LEARNING_RATE = 5, 1e-3


class Cases:
    """The tensors of ops.safetensors and, as metadata, the numbers that go with them."""

    def __init__(self):
        self.tensors, self.numbers = {}, {}

    def put(self, case, numbers=None, **tensors):
        for name, t in tensors.items():
            integers = not t.dtype.is_floating_point
            self.tensors[f"{case}.{name}"] = (t.to(torch.int32) if integers else t.float()).detach(
            ).contiguous().clone()
        for name, value in (numbers or {}).items():
            self.numbers[f"{case}.{name}"] = repr(value)


def random(*shape, scale=1.0):
    """float32 numbers, held as float64 and ready for a gradient."""
    return (torch.randn(*shape) * scale).double().requires_grad_()


def layer_norm(cases):
    for case, rows, width, offset in (("layer_norm", 7, 48, 0.0), ("layer_norm_offset", 5, 33, 100.0)):
        x = (random(rows, width).detach() + offset).float().double().requires_grad_()
        gain, bias, dy = random(width), random(width), random(rows, width)
        y = F.layer_norm(x, (width,), gain, bias, 1e-5)
        y.backward(dy)
        cases.put(case, {"epsilon": 1e-5}, x=x, gain=gain, bias=bias, y=y, dy=dy, dx=x.grad,
                  d_gain=gain.grad, d_bias=bias.grad)


def rms_norm(cases):
    x, gain, dy = random(7, 45), random(45), random(7, 45)
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * gain
    y.backward(dy)
    cases.put("rms_norm", {"epsilon": 1e-5}, x=x, gain=gain, y=y, dy=dy, dx=x.grad, d_gain=gain.grad)


def gated_activation(cases):
    for name, act in (("silu", F.silu), ("erf", F.gelu), ("tanh", lambda g: F.gelu(g, approximate="tanh"))):
        x = torch.cat((torch.linspace(-9, 9, 61).reshape(1, 61, 1), torch.randn(1, 61, 1)), -1)
        x = x.double().requires_grad_()
        dy = random(1, 61)
        y = act(x[..., 0]) * x[..., 1]
        y.backward(dy)
        cases.put(f"gated_{name}", x=x, y=y, dy=dy, dx=x.grad)


def gelu(cases):
    for kind in ("none", "tanh"):
        spread = torch.linspace(-9, 9, 181).reshape(1, 181).repeat(2, 1).double()
        x = spread.float().double().requires_grad_()
        bias = random(181, scale=0.1)
        dy = random(2, 181)
        y = F.gelu(x + bias, approximate=kind)
        y.backward(dy)
        cases.put(f"gelu_{'erf' if kind == 'none' else 'tanh'}", x=x, bias=bias, y=y, dy=dy,
                  dx=x.grad, d_bias=bias.grad)


def rotate(q, positions, dims, base):
    """The first `dims` of [B, T, H, D]: dim i turns with dim i + dims/2."""
    index = torch.arange(0, dims, 2, dtype=torch.float64)
    angles = positions.double()[..., None] * base ** (-index / dims)
    angles = torch.cat((angles, angles), -1)[:, :, None, :]
    turned, rest = q[..., :dims], q[..., dims:]
    low, high = turned.chunk(2, -1)
    return torch.cat((turned * angles.cos() + torch.cat((-high, low), -1) * angles.sin(), rest), -1)


def rotary(cases):
    batch, tokens, heads, size, dims = 2, 11, 3, 16, 8
    qkv = random(batch, tokens, heads, 3, size)
    positions = torch.arange(tokens).repeat(batch, 1)
    positions[1] += 2000
    q, k, v = (qkv[:, :, :, i] for i in range(3))
    out = torch.stack((rotate(q, positions, dims, 10000.0), rotate(k, positions, dims, 10000.0), v), 3)
    d_out = random(*out.shape)
    out.backward(d_out)
    cases.put("rotary", {"dims": dims, "base": 10000.0}, qkv=qkv, positions=positions, out=out,
              d_out=d_out, d_qkv=qkv.grad)


def attention(cases):
    for case, batch, tokens, groups, per_group, size in (
            ("attention", 2, 37, 3, 1, 16), ("attention_long", 1, 133, 1, 1, 32),
            ("attention_grouped", 2, 19, 2, 2, 8)):
        qkv = random(batch, tokens, groups, per_group + 2, size)
        scale = size ** -0.5
        q = qkv[:, :, :, :per_group].reshape(batch, tokens, groups * per_group, size).transpose(1, 2)
        k, v = (qkv[:, :, :, per_group + i].repeat_interleave(per_group, 2).transpose(1, 2)
                for i in range(2))
        scores = q @ k.transpose(-1, -2) * scale
        later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        out = (scores.softmax(-1) @ v).transpose(1, 2)
        d_out = random(*out.shape)
        out.backward(d_out)
        cases.put(case, {"scale": scale}, qkv=qkv, out=out, lse=scores.logsumexp(-1), d_out=d_out,
                  d_qkv=qkv.grad)


def attention_scopes(cases):
    """Attention within documents; with T5's biases, to a padded text; to another one."""
    bucket = T5Attention._relative_position_bucket

    def put(case, q, k, v, scores, seen, numbers, **more):
        scores = scores.masked_fill(~seen, float("-inf"))
        out = (scores.softmax(-1) @ v).transpose(1, 2)
        d_out = random(*out.shape)
        out.backward(d_out)
        grads = {f"d_{name}": t.grad for name, t in more.items() if t.requires_grad}
        cases.put(case, numbers, out=out, lse=scores.logsumexp(-1), d_out=d_out, **more, **grads)

    batch, tokens, source, heads, size, buckets = 2, 70, 83, 2, 16, 16
    qkv = random(batch, tokens, heads, 3, size)
    q, k, v = (qkv[:, :, :, i].transpose(1, 2) for i in range(3))
    documents = torch.randint(0, 8, (batch, tokens)).sort(-1).values
    documents[1, 66:] = -1
    same = (documents[:, :, None] == documents[:, None, :])[:, None]
    past = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    put("attention_documents", q, k, v, q @ k.transpose(-1, -2) * 0.25, same & past,
        {"scale": 0.25}, qkv=qkv, documents=documents)

    for case, whole in (("attention_bias", False), ("attention_bias_whole", True)):
        qkv, bias = random(batch, tokens, heads, 3, size), random(heads, buckets)
        q, k, v = (qkv[:, :, :, i].transpose(1, 2) for i in range(3))
        places = torch.arange(tokens)
        index = bucket(places[None, :] - places[:, None], bidirectional=whole, num_buckets=buckets,
                       max_distance=40)
        ids = torch.randint(1, 9, (batch, tokens))
        ids[1, 59:] = 0
        seen = (ids != 0)[:, None, None, :] & (past | whole)
        put(case, q, k, v, q @ k.transpose(-1, -2) + bias[:, index], seen,
            {"scale": 1.0, "distance": 40}, qkv=qkv, bias=bias, ids=ids)

    q4, kv = random(batch, tokens, heads, 1, size), random(batch, source, heads, 2, size)
    q = q4[:, :, :, 0].transpose(1, 2)
    k, v = (kv[:, :, :, i].transpose(1, 2) for i in range(2))
    ids = torch.randint(1, 9, (batch, source))
    ids[0, 65:] = 0
    put("attention_across", q, k, v, q @ k.transpose(-1, -2), (ids != 0)[:, None, None, :],
        {"scale": 1.0}, qkv=q4, kv=kv, ids=ids)


def cross_entropy(cases):
    rows, width, vocabulary = 13, 24, 57
    hidden, weight = random(rows, width), random(vocabulary, width, scale=0.3)
    labels = torch.randint(0, vocabulary, (rows,))
    labels[[2, 9]] = reference.IGNORED
    logits = hidden @ weight.T
    logits.retain_grad()
    loss = F.cross_entropy(logits, labels, ignore_index=reference.IGNORED, reduction="sum")
    loss.backward()
    cases.put("cross_entropy", {"tokens": rows - 2}, hidden=hidden, weight=weight, labels=labels,
              logits=logits, loss_sum=loss.reshape(1), d_logits=logits.grad, d_hidden=hidden.grad,
              d_weight=weight.grad)


def loss_terms(cases):
    """PyTorch's label smoothing, and a z-loss, on logits with and without a soft cap."""
    torch.manual_seed(SEED)  # whatever was sampled before
    rows, width, vocabulary, smoothing, z = 11, 24, 57, 0.1, 0.02
    for name, cap in (("plain", 0.0), ("capped", 3.0)):
        hidden, weight = random(rows, width), random(vocabulary, width, scale=0.3)
        labels = torch.randint(0, vocabulary, (rows,))
        labels[[0, 7]] = reference.IGNORED
        logits = hidden @ weight.T
        logits.retain_grad()
        bent = cap * torch.tanh(logits / cap) if cap else logits
        squares = torch.logsumexp(bent, -1)[labels != reference.IGNORED].square().sum()
        smoothed = F.cross_entropy(bent, labels, ignore_index=reference.IGNORED, reduction="sum",
                                   label_smoothing=smoothing)
        loss = F.cross_entropy(bent, labels, ignore_index=reference.IGNORED, reduction="sum")
        (smoothed + z * squares).backward()
        cases.put(f"loss_terms_{name}", {"soft_cap": cap, "label_smoothing": smoothing, "z_loss": z},
                  hidden=hidden, weight=weight, labels=labels, logits=logits, loss_sum=loss.reshape(1),
                  z_loss_sum=(z * squares).reshape(1), d_logits=logits.grad, d_hidden=hidden.grad,
                  d_weight=weight.grad)


def adamw(cases):
    settings = dict(lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    for case, decay in (("adamw", 0.1), ("adamw_no_decay", 0.0)):
        weight = torch.nn.Parameter(random(40).detach())
        before = weight.detach().clone()
        update = torch.optim.AdamW([weight], weight_decay=decay, **settings)
        gradients = torch.stack([random(40).detach() * 10.0 ** -i for i in range(4)])
        gradients = gradients.float().double()
        gradients[:, 0] = 0  # a weight that never gets a gradient
        for gradient in gradients:
            weight.grad = gradient.clone()
            update.step()
        state = update.state[weight]
        cases.put(case, {"learning_rate": 3e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
                         "weight_decay": decay}, weight=before, gradients=gradients,
                  new_weight=weight, moment1=state["exp_avg"], moment2=state["exp_avg_sq"])


def optimizer_case(cases, case, make, numbers, shape=(6, 10), moments=()):
    """Steps of one optimizer on one weight; `moments`: name → its key in the optimizer's state."""
    weight = torch.nn.Parameter(random(*shape).detach())
    before = weight.detach().clone()
    update = make([weight])
    gradients = torch.stack([random(*shape).detach() * 10.0 ** -i for i in range(4)]).float().double()
    for gradient in gradients:
        weight.grad = gradient.clone()
        update.step()
    state = update.state[weight]
    cases.put(case, numbers, weight=before, gradients=gradients, new_weight=weight,
              **{name: state[key] for name, key in moments})


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2, which PyTorch has not."""

    def __init__(self, weights, lr, betas, weight_decay):
        super().__init__(weights, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = beta1 * m + (1 - beta1) * p.grad
                p -= rate * (c.sign() + group["weight_decay"] * p)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class ScheduleFree(torch.optim.Optimizer):
    """Defazio et al. 2024, which PyTorch has not, at a constant rate: the parameter is y, the weights
    at which gradients are computed; `x` is the average."""

    def __init__(self, weights, lr, betas, eps, weight_decay):
        super().__init__(weights, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), rate = group["betas"], group["lr"]
            for y in group["params"]:
                s = self.state[y]
                if not s:
                    s.update(t=0, z=y.clone(), v=torch.zeros_like(y))
                s["t"] += 1
                share = 1 / s["t"]
                s["v"].mul_(beta2).addcmul_(y.grad, y.grad, value=1 - beta2)
                root = (s["v"] / (1 - beta2 ** s["t"])).sqrt()
                update = y.grad / (root + group["eps"]) + group["weight_decay"] * y
                y.lerp_(s["z"], share).add_(update, alpha=rate * (beta1 * (1 - share) - 1))
                s["z"].sub_(update, alpha=rate)
                s["x"] = y + (1 - 1 / beta1) * (s["z"] - y)


def exact_newton_schulz(grad, coefficients, steps, eps):
    """PyTorch's iterations without the rounding to bf16."""
    a, b, c = coefficients
    tall = grad.size(0) > grad.size(1)
    x = grad.T if tall else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def muon(cases):
    """PyTorch's Muon, with exact iterations, for wide and for tall matrices and both scales."""
    torch.optim._muon._zeropower_via_newtonschulz = exact_newton_schulz
    for case, shape, scale, nesterov in (("muon", (6, 10), "match_rms_adamw", True),
                                         ("muon_tall", (11, 5), "original", False)):
        optimizer_case(cases, case, lambda w: torch.optim.Muon(
            w, lr=3e-2, weight_decay=0.1, momentum=0.9, nesterov=nesterov, adjust_lr_fn=scale),
            dict(learning_rate=3e-2, beta1=0.9, weight_decay=0.1), shape,
            [("moment1", "momentum_buffer")])


def optimizers(cases):
    torch.manual_seed(SEED)  # whatever was sampled before
    lion = dict(learning_rate=3e-3, beta1=0.9, beta2=0.99, weight_decay=0.1)
    optimizer_case(cases, "lion", lambda w: Lion(w, 3e-3, (0.9, 0.99), 0.1), lion,
                   moments=[("moment1", "m")])
    sgd = dict(learning_rate=3e-2, beta1=0.9, weight_decay=0.1)
    optimizer_case(cases, "sgd", lambda w: torch.optim.SGD(w, 3e-2, 0.9, weight_decay=0.1), sgd,
                   moments=[("moment1", "momentum_buffer")])
    optimizer_case(cases, "sgd_plain", lambda w: torch.optim.SGD(w, 3e-2), dict(learning_rate=3e-2))
    rows = [("rows", "exp_avg_sq_row"), ("columns", "exp_avg_sq_col")]
    for case, shape, beta1, scale, moments in (
            ("adafactor", (6, 10), None, True, rows),
            ("adafactor_vector", (40,), None, True, [("rows", "exp_avg_sq")]),
            ("adafactor_momentum", (6, 10), 0.9, False, rows + [("moment1", "exp_avg")])):
        numbers = dict(learning_rate=1e-2, beta1=beta1 or 0.0, epsilon=1e-30, least_scale=1e-3,
                       update_clip=1.0, decay_power=0.8, weight_decay=0.05)
        optimizer_case(cases, case, lambda w: Adafactor(
            w, lr=1e-2, eps=(1e-30, 1e-3), clip_threshold=1.0, decay_rate=-0.8, beta1=beta1,
            weight_decay=0.05, scale_parameter=scale, relative_step=False), numbers, shape, moments)
    muon(cases)
    averaged = dict(learning_rate=3e-3, beta1=0.9, beta2=0.95, weight_decay=0.1)
    optimizer_case(cases, "schedule_free", lambda w: ScheduleFree(w, 3e-3, (0.9, 0.95), 1e-8, 0.1),
                   averaged, moments=[("iterate", "z"), ("new_x", "x"), ("moment2", "v")])


QWEN2 = dict(layers=2, hidden=48, heads=6, vocabulary=281, context=32)
MIXTRAL = dict(layers=2, hidden=32, heads=4, vocabulary=281, context=32)
DECODERS = ("mistral", "smollm3-window", "phi3-longrope", "qwen3", "qwen3-moe", "deepseek-v2-groups",
            "deepseek-v3", "gpt-oss", "olmo2", "gemma2", "gemma3")


def model_files(folder, family, sizes):
    """config.json and model.safetensors as transformers writes them, and what the model computes."""
    model = reference.make_model(family, **sizes, seed=SEED, spread=0.15)
    model.save_pretrained(folder / family)
    (folder / family / "generation_config.json").unlink(missing_ok=True)
    stream = torch.randint(0, sizes["vocabulary"], (ROWS * TOKENS + 1,))
    batch = stream.unfold(0, TOKENS + 1, TOKENS)  # as a dataset of one document is cut
    reference_file(folder / family, model, batch, {"tokens": batch})


def ahead_files(folder, depth=2):
    """DeepSeek-V3 with modules of multi-token prediction, which transformers does not save: their
    tensors are added to its file, under the names that it reads."""
    torch.manual_seed(SEED)
    place = folder / "deepseek-v3-mtp"
    model = reference.make_model("deepseek-v3", **QWEN2, seed=SEED, spread=0.15)
    model.save_pretrained(place)
    (place / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((place / "config.json").read_text())
    config["num_nextn_predict_layers"] = depth
    (place / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    reference.add_ahead(model, depth, 0.15)
    own = dict(model.named_parameters()) | dict(model.named_buffers())
    added = reference.as_saved({reference.saved_name(model, n): t.detach() for n, t in own.items()
                                if n.startswith("ahead.") and not n.endswith("inv_freq")})
    saved = load_file(place / "model.safetensors")
    saved |= {n: t.clone().contiguous() for n, t in added.items()}
    save_file(saved, place / "model.safetensors", {"format": "pt"})
    stream = torch.randint(0, QWEN2["vocabulary"], (ROWS * TOKENS + 1,))
    batch = stream.unfold(0, TOKENS + 1, TOKENS)
    with torch.no_grad():
        exact, single = (reference.ahead_losses(m, batch)
                         for m in (reference.double_copy(model), model))
    means = [float(total) / tokens for total, tokens in (exact, single)]
    reference_file(place, model, batch, {"tokens": batch},
                   {"mtp_losses": torch.tensor(means[:1], dtype=torch.float64)},
                   {"mtp_weight": repr(reference.AHEAD_WEIGHT),
                    "fp32_distance.mtp_losses": f"{abs(means[1] - means[0]) / means[0]:.3e}"})


def reference_file(folder, model, batch, given, more={}, numbers={}):
    """Results of the model for a batch."""
    exact = reference.double_copy(model)
    with torch.no_grad():
        logits = reference.logits_of(exact, reference.inputs_of(batch))
        logits32 = reference.logits_of(model, reference.inputs_of(batch))
    gradients = reference.gradients_of(exact, batch)
    gradients32 = reference.gradients_of(model, batch)
    losses, norms = reference.train(exact, [batch] * STEPS, LEARNING_RATE)
    losses32, norms32 = reference.train(model, [batch] * STEPS, LEARNING_RATE)
    tensors = {name: ids.to(torch.int32) for name, ids in given.items()}
    tensors |= {"logits": logits.float().contiguous(),
               "losses": torch.tensor(losses, dtype=torch.float64),
               "norms": torch.tensor(norms, dtype=torch.float64)}
    tensors |= more
    tensors |= {f"gradient.{n}": g.float().contiguous() for n, g in gradients.items()}
    distance = {
        "logits": float((logits32.double() - logits).abs().max() / logits.abs().max()),
        "gradients": max(reference.relative(gradients32[n], g) for n, g in gradients.items()),
        "losses": max(abs(a - b) / b for a, b in zip(losses32, losses)),
        "norms": max(abs(a - b) / b for a, b in zip(norms32, norms)),
    }
    metadata = {"learning_rate": repr(LEARNING_RATE), "beta1": "0.9", "beta2": "0.95",
                "epsilon": "1e-08", "weight_decay": "0.1", "clip_norm": "1.0"}
    metadata |= numbers
    metadata |= {f"fp32_distance.{n}": f"{v:.3e}" for n, v in distance.items()}
    save_file(tensors, folder / "reference.safetensors", metadata)
    print(f"{folder.name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, PyTorch fp32 to fp64: " +
          ", ".join(f"{n} {v:.1e}" for n, v in distance.items()))


def byte_tokenizer():
    """A token for each byte, as byte-level BPE spells them, and the end of text after each text."""
    spelled = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    letters = {b: chr(b) for b in spelled}
    letters |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in letters)}
    end = {"id": 256, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    name, text = end["content"], {"Sequence": {"id": "A", "type_id": 0}}
    last = {"SpecialToken": {"id": name, "type_id": 0}}
    behind = {"type": "TemplateProcessing", "single": [text, last],
              "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}, last],
              "special_tokens": {name: {"id": name, "ids": [256], "tokens": [name]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end],
            "normalizer": None, "pre_tokenizer": level, "post_processor": behind, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {letters[b]: b for b in range(256)} | {"<|endoftext|>": 256},
                      "merges": []}}


def pair_files(folder, family):
    """A model with an encoder, and pairs of texts of many lengths that it is fine-tuned on."""
    sizes = dict(layers=1, hidden=32, heads=3, vocabulary=281, context=32)
    model = reference.make_model(family, **sizes, seed=SEED, spread=PAIR_SPREAD)
    model.save_pretrained(folder / family)
    (folder / family / "generation_config.json").unlink(missing_ok=True)
    draw = plain_random.Random(SEED)
    texts = [tuple("".join(draw.choices("etaoin ", k=draw.randint(1, n))) + "." for n in (22, 12))
             for _ in range(2 * ROWS)]
    lines = [json.dumps({"prompt": prompt, "response": response}) for prompt, response in texts]
    (folder / family / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    (folder / family / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    source = torch.zeros(len(texts), TOKENS, dtype=torch.int64)
    labels = torch.full((len(texts), PAIR_TARGET), reference.IGNORED)
    for row, (prompt, response) in enumerate(texts):
        source[row, :len(prompt) + 1] = torch.tensor([*prompt.encode(), 256])
        labels[row, :len(response) + 1] = torch.tensor([*response.encode(), 256])
    reference_file(folder / family, model, reference.Pairs(source, labels),
                   {"source": source, "labels": labels})


def decoder_files(folder):
    for family in DECODERS:
        torch.manual_seed(SEED)  # whatever was sampled before
        model_files(folder, family, QWEN2)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "golden"
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # so that the fp32 distances are the same everywhere
    torch.manual_seed(SEED)
    cases = Cases()
    for make in (layer_norm, gelu, rotary, attention, cross_entropy, adamw, rms_norm,
                 gated_activation, attention_scopes):
        make(cases)
    with torch.random.fork_rng():  # the samples below stay the same
        loss_terms(cases)
    save_file(cases.tensors, folder / "ops.safetensors", cases.numbers)
    for family, sizes in MODELS.items():
        model_files(folder, family, sizes)
    updates = Cases()
    optimizers(updates)
    save_file(updates.tensors, folder / "optimizers.safetensors", updates.numbers)
    for family in ("t5", "t5-tied"):
        pair_files(folder, family)
    for f in folder.rglob("*.safetensors"):
        f.chmod(0o644)
    torch.manual_seed(SEED)  # whatever was sampled before
    model_files(folder, "qwen2", QWEN2)
    torch.manual_seed(SEED)
    model_files(folder, "mixtral", MIXTRAL)
    decoder_files(folder)
    ahead_files(folder)
    total = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{folder}: {len(cases.tensors)} tensors of ops, {total / 2**20:.2f} MiB in all")


if __name__ == "__main__":
    main()
