"""PyTorch's side of a study: a transformers model trained on given batches at given learning rates.

usage: python studies/peer_train.py JOB        with PyTorch and transformers; small_runs.Peer calls it

JOB is JSON: model (a folder of transformers), ids (JSON: sequences of T + 1 tokens, in the order of
the steps), sequences (a step), rates (of each step), optimizer {beta1, beta2, epsilon, weight_decay,
clip_norm}, bf16 (null, "autocast" or "rounded"), validation (null or a file of two-byte tokens, and
how many sequences), out (a folder: the model and curve.json, both written at the end).

"autocast" is PyTorch's own mixed precision. CPUs without bf16 instructions take minutes for what
"rounded" does in seconds: products and attention of operands rounded to bf16, summed in fp32, their
results rounded to bf16, forward and backward, as devices with such instructions compute them;
weights, residuals, norms and the loss stay fp32, as autocast leaves them.
"""
import array
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "scripts"))
import parity_reference as reference  # noqa: E402


def rounded(x):
    return x.to(torch.bfloat16).to(torch.float32)


class Round(torch.autograd.Function):
    """To bf16, the gradient too."""

    @staticmethod
    def forward(_, x):
        return rounded(x)

    @staticmethod
    def backward(_, gradient):
        return rounded(gradient)


def round_products():
    """From here on linear layers and attention compute as under autocast to bf16."""
    linear, attention = F.linear, F.scaled_dot_product_attention

    def rounded_linear(x, weight, bias=None):
        bias = None if bias is None else Round.apply(bias)
        return Round.apply(linear(Round.apply(x), Round.apply(weight), bias))

    def rounded_attention(q, k, v, *more, **named):
        return Round.apply(attention(Round.apply(q), Round.apply(k), Round.apply(v), *more, **named))

    F.linear, F.scaled_dot_product_attention = rounded_linear, rounded_attention


def train(model, job):
    """The curve: loss and norm (before clipping) of each step."""
    o = job["optimizer"]
    update = reference.adamw(model, 0.0, o["beta1"], o["beta2"], o["epsilon"], o["weight_decay"])
    ids = torch.tensor(json.loads(pathlib.Path(job["ids"]).read_text()))
    curve = []
    for step, rate in enumerate(job["rates"]):
        batch = ids[step * job["sequences"]:(step + 1) * job["sequences"]]
        for group in update.param_groups:
            group["lr"] = rate
        update.zero_grad(set_to_none=True)
        loss = reference.loss_of(model, batch, job["bf16"] == "autocast")
        loss.backward()
        norm = reference.norm_of(p.grad for p in model.parameters())
        clip = min(1.0, o["clip_norm"] / (norm + 1e-6))
        for p in model.parameters():
            p.grad.mul_(clip)
        update.step()
        curve.append({"step": step + 1, "loss": float(loss.detach()), "grad_norm": norm})
    return curve


def validate(model, path, sequences, tokens):
    """The mean over the file's first sequences, each of `tokens` and the one that comes next."""
    ids = array.array("H", pathlib.Path(path).read_bytes())
    rows = [ids[i * tokens:(i + 1) * tokens + 1].tolist() for i in range(sequences)]
    with torch.no_grad():
        losses = [float(reference.loss_of(model, torch.tensor(rows[i:i + 8])))
                  for i in range(0, sequences, 8)]
    return sum(losses) / len(losses)


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    if job["bf16"] == "rounded":
        round_products()
    model = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32,
                                                 attn_implementation="sdpa")
    result = {"steps": train(model, job), "validation": None}
    if job["validation"]:
        result["validation"] = validate(model, *job["validation"])
    out = pathlib.Path(job["out"])
    model.save_pretrained(out)
    (out / "curve.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
