#!/usr/bin/env python3
"""Makes tests/golden/preferences.safetensors: losses of preferences and their gradients by PyTorch.

    VENV/bin/python scripts/preference_golden.py [FOLDER]      (torch, safetensors)

Values are computed in float64 from float32 logits and rounded to float32. tests/golden/README.md
describes each tensor.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

SEED = 20261126
PAIRS, TOKENS, VOCABULARY = 3, 14, 29
IGNORED, NO_ANSWER = -100, -1
SOFT_CAP = 2.0
KTO_Z = 0.25


def batch():
    """Two texts per row, of which the ends are answers of different lengths."""
    logits = (torch.randn(PAIRS, TOKENS, VOCABULARY) * 2).double()
    labels = torch.full((PAIRS, TOKENS), IGNORED)
    answers = torch.full((PAIRS, TOKENS), NO_ANSWER)
    for row, places in enumerate([((1, 4), (6, 11)), ((2, 7), (8, 9)), ((0, 3), (5, 14))]):
        for answer, (first, end) in enumerate(places):
            answers[row, first:end] = answer
            labels[row, first:end] = torch.randint(0, VOCABULARY, (end - first,))
    return logits, labels, answers


def answer_sums(logits, labels, answers):
    """Sums of the log-probabilities of both answers, [pairs, 2], and their lengths."""
    log_probs = F.log_softmax(logits, -1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    masks = torch.stack([answers == 0, answers == 1], 1)
    return (log_probs[:, None] * masks).sum(-1), masks.sum(-1)


def odds(p):
    return p - torch.log1p(-torch.exp(p))


def loss_of(kind, sums, lengths, references):
    """Losses of the pairs, as in the papers and in TRL; docs/objectives.md has the conventions."""
    delta, mean = sums - references[:, :2], sums / lengths
    chosen, rejected = delta[:, 0], delta[:, 1]
    if kind == "dpo":
        return -F.logsigmoid(0.3 * (chosen - rejected))
    if kind == "dpo_smoothed":
        x = 0.3 * (chosen - rejected)
        return -0.8 * F.logsigmoid(x) - 0.2 * F.logsigmoid(-x)
    if kind == "ipo":
        means = delta / lengths
        return (means[:, 0] - means[:, 1] - 1 / (2 * 0.7)) ** 2
    if kind == "simpo":
        return -F.logsigmoid(2 * (mean[:, 0] - mean[:, 1]) - 0.5)
    if kind == "orpo":
        cross_entropy = -sums[:, 0].sum() / lengths[:, 0].sum()
        return cross_entropy - 0.4 * F.logsigmoid(odds(mean[:, 0]) - odds(mean[:, 1]))
    desirable = references[:, 2] > 0
    good = 1.3 * (1 - torch.sigmoid(0.3 * (chosen - KTO_Z)))
    bad = 0.6 * (1 - torch.sigmoid(0.3 * (KTO_Z - chosen)))
    return torch.where(desirable, good, bad)


def main():
    torch.manual_seed(SEED)
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden")
    logits, labels, answers = batch()
    logits = logits.float().double()
    with torch.no_grad():
        sums, _ = answer_sums(logits, labels, answers)
    references = torch.cat([sums + torch.randn(PAIRS, 2).double(),
                            torch.tensor([[1.0], [0.0], [1.0]]).double()], 1).float().double()
    tensors = {"logits": logits.float(), "labels": labels.int(), "answers": answers.int(),
               "references": references.float()}
    for kind in ("dpo", "dpo_smoothed", "ipo", "simpo", "orpo", "kto", "dpo_capped"):
        z = logits.clone().requires_grad_()
        bent = SOFT_CAP * torch.tanh(z / SOFT_CAP) if kind == "dpo_capped" else z
        sums, lengths = answer_sums(bent, labels, answers)
        loss = loss_of("dpo" if kind == "dpo_capped" else kind, sums, lengths, references).sum()
        loss.backward()
        tensors[f"{kind}.loss_sum"] = loss.detach().reshape(1).float()
        tensors[f"{kind}.d_logits"] = z.grad.float()
    save_file(tensors, folder / "preferences.safetensors")


if __name__ == "__main__":
    main()
