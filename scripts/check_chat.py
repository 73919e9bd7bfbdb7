#!/usr/bin/env python3
"""Compares loss masks of chat data with TRL's definition of assistant-only loss, and checks that a tuned model stops.

Masks: random conversations (those of check_templates.py) in the templates of TRL that mark their answers with
{% generation %}. transformers' apply_chat_template(return_assistant_tokens_mask=True), which TRL's
assistant_only_loss uses, and `tessera data render --tokenizer` must give the same ids and masks. Where TRL has
the same template without marks, the answers that Tessera finds in it must be the same too, without the prompt for
an answer and without blanks and the end of the text after the token that ends a turn.

Stop: a small ChatML model, trained on three answers and exported, must end its turn in transformers (needs torch;
skipped without it).

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install transformers jinja2 trl
    /tmp/peer/bin/python scripts/check_chat.py --count 1000
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import check_templates
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

MARKS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<start_of_turn>", "<end_of_turn>",
         "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<s>", "</s>", "<|endoftext|>", "<|start|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>",
         "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"]
NAMES = ["qwen2_5", "qwen3", "llama3", "gemma", "phi3", "deepseekv3", "gptoss", "qwen3_instruct_2507"]
# Errors of Tessera for a conversation in which it does not find the answers.
UNDECIDED = ["cannot decide where the answer", "the conversation begins with the assistant", "the template writes no token after the answer"]
TOKENS = {"bos_token": "<s>", "eos_token": "<|endoftext|>"}


def tokenizer_folder(program, folder):
    """Trains a small tokenizer that has the special tokens of the templates."""
    text, out = os.path.join(folder, "text.txt"), os.path.join(folder, "tokenizer")
    os.mkdir(out)
    pathlib.Path(out, "tokenizer_config.json").write_text(json.dumps(TOKENS))
    pathlib.Path(text).write_text("\n".join(check_templates.TEXTS * 30 + ["user assistant system What is the answer?"] * 50), encoding="utf-8")
    special = [a for name in MARKS for a in ("--special", name)]
    subprocess.run([program, "tokenizer", "train", "--vocabulary", "600", *special, "--out", os.path.join(out, "tokenizer.json"), text], check=True, stdout=subprocess.DEVNULL)
    return out


def ours(program, folder, text, tokenizer, lines):
    form, chat = os.path.join(folder, "t.jinja"), os.path.join(folder, "chat.jsonl")
    pathlib.Path(form).write_text(text, encoding="utf-8", newline="")
    keys = ("messages", "tools")
    pathlib.Path(chat).write_text("".join(json.dumps({k: v for k, v in line.items() if k in keys}, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    done = subprocess.run([program, "data", "render", form, chat, "--tokenizer", tokenizer, "--json", "--date", "2026-01-31"], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def theirs(peer, text, line):
    """Ids and mask; nothing if the template rejects the conversation."""
    try:
        out = peer.apply_chat_template(line["messages"], tools=line.get("tools"), chat_template=text, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    except Exception:  # templates and Jinja raise errors of many types
        return None
    return out["input_ids"], out["assistant_masks"]


def spans(mask):
    """The [first, last) of each run of ones."""
    edges = [i for i, (a, b) in enumerate(zip([0, *mask], [*mask, 0])) if a != b]
    return list(zip(edges[::2], edges[1::2]))


def same_answers(peer, ids, mine, reference, prompt):
    """True if the answers are those of the reference without text that the model does not write in its turn: after the special token
    that ends an answer, blanks and the end of the text; before an answer, the end of the prompt for it."""
    special = {peer.convert_tokens_to_ids(name) for name in MARKS}
    end = peer.convert_tokens_to_ids(TOKENS["eos_token"])
    if any(a and not b for a, b in zip(mine, reference, strict=True)):
        return False
    marked = {last for _, last in spans(reference)}
    if any(last not in marked and ids[last - 1] not in special for _, last in spans(mine)):
        return False
    gaps = [peer.decode([i for i in ids[first:last] if i != end]) for first, last in spans([b and not a for a, b in zip(mine, reference)])]
    answers = all(any(mine[first:last]) for first, last in spans(reference))
    return answers and all(prompt.endswith(gap.lstrip()) or prompt.endswith(gap) for gap in gaps)


def prompt_of(peer, text):
    """Returns what a template adds to ask for an answer."""
    chat = [{"role": "user", "content": "x"}]
    plain, asked = (peer.apply_chat_template(chat, chat_template=text, tokenize=False, add_generation_prompt=p) for p in (False, True))
    return asked[len(plain):] if asked.startswith(plain) else ""


def conversation(rng):
    """A conversation of check_templates.py. One of ten begins with the assistant, as some of ShareGPT do."""
    line = check_templates.conversation(rng)
    if rng.random() < 0.1:
        line["messages"].insert(0, {"role": "assistant", "content": "How may I help?"})
    return line


def check_masks(args, folder):
    tokenizer = tokenizer_folder(args.program, folder)
    peer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(tokenizer, "tokenizer.json"), **TOKENS)
    templates = check_templates.archives(args.cache)
    compared = bad = 0
    for name in NAMES:
        marked = templates[f"trl/{name}_training.jinja"]
        rng = random.Random(f"{args.seed} {name}")
        lines = [conversation(rng) for _ in range(args.count // len(NAMES) + 1)]
        references = [theirs(peer, marked, line) for line in lines]
        for kind, text in (("marked", marked), ("unmarked", templates.get(f"trl/{name}.jinja"))):
            if text is None:
                continue
            prompt = prompt_of(peer, text)
            equal = rejected = undecided = different = 0
            for line, reference, out in zip(lines, references, ours(args.program, folder, text, tokenizer, lines), strict=True):
                if reference is None or (kind == "unmarked" and theirs(peer, text, line) is None):
                    rejected += 1
                elif "error" in out:
                    known = any(text in out["error"] for text in UNDECIDED)
                    undecided += known
                    different += not known
                    if not known:
                        print("   ", out["error"])
                elif kind == "marked":
                    same = out["ids"] == list(reference[0]) and out["learned"] == list(reference[1])
                    equal, different = equal + same, different + (not same)
                elif out["ids"] != list(reference[0]):
                    rejected += 1  # TRL's marked template has another text
                else:
                    same = same_answers(peer, out["ids"], out["learned"], list(reference[1]), prompt)
                    equal, different = equal + same, different + (not same)
            print(f"{name}, {kind}: {equal} equal, {different} differ, {undecided} undecided, {rejected} not comparable", flush=True)
            compared += equal
            bad += different
    print(f"{compared} masks equal, {bad} differ")
    return bad


def check_stop(args, folder):
    """Returns the number of failures."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        print("stop: skipped, there is no torch")
        return 0
    run = lambda *a: subprocess.run([os.path.abspath(args.program), *a], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    pairs = {"one?": "uno", "two?": "dos", "six?": "seis"}
    with open(os.path.join(folder, "c.jsonl"), "w") as f:
        for q, a in pairs.items():
            f.write(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n")
    pathlib.Path(folder, "chatml.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    pathlib.Path(folder, "r.yaml").write_text(
        "model: { family: llama, layers: 2, hidden: 64, heads: 4, context: 64, vocabulary: 0 }\n"
        "data: { tokenizer: tokenizer/tokenizer.json, instructions: [c.jsonl], chat_template: chatml.jinja, sequence_length: 64 }\n"
        "batch: { global: 2, micro: 2 }\noptimizer: { learning_rate: 5.0e-3 }\nschedule: { kind: constant, steps: 250 }\n"
        "run: { directory: tuned, seed: 1 }\n")
    run("train", "r.yaml")
    run("checkpoint", "export", "tuned", "--to", "hf")
    model = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "hf"))
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(folder, "hf"))
    bad = 0
    for q, a in pairs.items():
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": q}], add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            out = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0][prompt["input_ids"].shape[1]:]
        good = tokenizer.decode(out) == a + "<|im_end|>"
        bad += not good
        print(f"stop: {q} → {tokenizer.decode(out)!r}{'' if good else ', expected ' + repr(a + '<|im_end|>')}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/tessera")
    parser.add_argument("--count", type=int, default=1000, help="conversations, over all templates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/tessera-templates/archives"))
    args = parser.parse_args()
    chat_template_utils.datetime = check_templates.FixedDate
    with tempfile.TemporaryDirectory() as folder:
        bad = check_masks(args, folder)
        bad += check_stop(args, folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
