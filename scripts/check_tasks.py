#!/usr/bin/env python3
"""Compares our results in tasks with those of lm-evaluation-harness (PyPI lm-eval) on the same exported model.

usage: check_tasks.py TESSERA CHECKPOINT HF_FOLDER DATA_FOLDER [--limit N] [--written N] [TASK.yaml …]

Each task file is turned into a configuration of lm-eval's own task class, which reads the same JSON
lines. Every log-likelihood must agree within 1e-3, every text that is written and every metric exactly.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

FILTER = "extracted"  # the answer out of what was written
BOUND = 1e-3
METRICS = {"accuracy": "acc", "accuracy_length": "acc_norm", "perplexity": "perplexity",
           "exact_match": "exact_match"}


def jinja(form):
    return re.sub(r"\{(\w+)\}", r"{{\1}}", form)


def harness_config(task, name, data):
    """The same task in lm-eval's terms."""
    before, _, _ = task["form"].partition("{response}")
    context = before.rstrip(" ")
    config = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "target_delimiter": before[len(context):],
        "num_fewshot": 0,
    }
    kind = task["kind"]
    if kind == "choice" and "{choices}" in task["response"]:
        config |= {"output_type": "multiple_choice", "doc_to_text": jinja(context),
                   "doc_to_choice": "{{choices}}", "doc_to_target": "{{" + task["gold"] + "}}",
                   "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}
    elif kind == "choice":  # beginnings that differ: lm-eval calls them multiple inputs
        options = re.search(r"\{(\w+)\}", context).group(1)
        config |= {"output_type": "multiple_choice", "doc_to_text": "{{" + task["gold"] + "}}",
                   "doc_to_choice": "{{" + options + "}}", "doc_to_target": jinja(task["response"]),
                   "metric_list": [{"metric": "acc"}]}
    elif kind == "last_word":
        delimiter = config["target_delimiter"]  # which this kind does not put in itself
        config |= {"output_type": "loglikelihood", "doc_to_text": jinja(context),
                   "doc_to_target": delimiter + jinja(task["response"]),
                   "metric_list": [{"metric": "acc"}, {"metric": "perplexity", "aggregation": "perplexity"}]}
    else:
        extract = [{"function": "regex", "regex_pattern": task["extract"]}] if "extract" in task else []
        config |= {"output_type": "generate_until", "doc_to_text": jinja(context),
                   "doc_to_target": jinja(task["answer"]),
                   "filter_list": [{"name": FILTER, "filter": [*extract, {"function": "take_first"}]}],
                   "generation_kwargs": {"until": task["stop"], "do_sample": False,
                                         "max_gen_toks": task.get("max_tokens", 256)},
                   "metric_list": [{"metric": "exact_match",
                                    "regexes_to_ignore": [re.escape(t) for t in task.get("ignore", [])]}]}
    return config


def harness(folder, configs, limit):
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM
    model = HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=4)
    tasks = [ConfigurableTask(config=c) for c in configs]
    return lm_eval.simple_evaluate(model, tasks=tasks, limit=limit, log_samples=True, bootstrap_iters=0)


def compare(a, files, limit):
    """Lines of what agrees and what does not; how many tasks do not."""
    specs = {f.stem: yaml.safe_load(f.read_text()) for f in files}
    configs = [harness_config(t, n, Path(a.data) / t["data"]) for n, t in specs.items()]
    reference = harness(a.hf_folder, configs, limit)
    results, examples = ours(a, files, limit)
    encodes = json.loads((Path(a.hf_folder) / "config.json").read_text()).get("is_encoder_decoder", False)
    wrong = 0
    for r in results:
        mine = [e for e in examples if e["task"] == r["task"]]
        line, ok = beside(r, mine, reference, encodes)
        wrong += not ok
        print(line if ok else line + "  WRONG", flush=True)
    return wrong


def same_text(mine, other, encodes):
    """With an encoder, lm-eval counts the encoder's tokens towards its limit, so our text may be longer."""
    return mine == other or (encodes and mine != "" and other.startswith(mine))


def beside(r, mine, reference, encodes):
    name, worst, differ = r["task"], 0.0, 0
    theirs = sorted(reference["samples"][name], key=lambda s: s["doc_id"])
    for e, s in zip(mine, theirs, strict=True):
        if "log_likelihood" in e:
            worst = max([worst] + [abs(x - y) for x, y in
                                   zip(e["log_likelihood"], likelihoods(s), strict=True)])
        else:
            differ += not same_text(e["written"].strip(), s["resps"][0][0].strip(), encodes)
    writes = "written" in mine[0]
    line = f"{name:20} {len(mine):5} examples  "
    line += (f"texts written: {differ} differ" if writes
             else f"worst log-likelihood difference {worst:.1e}")
    ok, compared = worst <= BOUND and not differ, 0
    for metric, value in r["metrics"].items():
        key = f"{METRICS.get(metric)},{FILTER if writes else 'none'}"
        if key not in reference["results"][name]:
            continue
        other = reference["results"][name][key]
        same = abs(value["value"] - other) <= 1e-3 * max(1, abs(other))
        ok, compared = ok and same, compared + 1
        line += f"  {metric} {value['value']:.4f}{' = ' if same else ' ≠ '}{other:.4f}"
    return line, ok and compared > 0


def ours(a, files, limit):
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "examples.jsonl"
        command = [a.tessera, "eval", a.checkpoint, "--data", a.data, "--json", "--shots", "0",
                   "--limit", str(limit), "--examples", str(rows)]
        for f in files:
            command += ["--task", str(f)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        examples = [json.loads(line) for line in rows.read_text().splitlines()]
    return json.loads(out)["results"], examples


def likelihoods(sample):
    found = [r[0] if isinstance(r, (list, tuple)) else r for r in sample["filtered_resps"]]
    return [float(x) for x in found]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ["tessera", "checkpoint", "hf_folder", "data"]:
        p.add_argument(name)
    p.add_argument("tasks", nargs="*", type=Path)
    p.add_argument("--limit", type=int, default=50)
    p.add_argument("--written", type=int, default=8, help="examples of tasks that are written: --limit")
    a = p.parse_intermixed_args()
    files = a.tasks or sorted((Path(__file__).parent.parent / "configs/tasks").glob("*.yaml"))
    written = [f for f in files if yaml.safe_load(f.read_text())["kind"] == "exact_match"]
    chosen = [f for f in files if f not in written]
    wrong = compare(a, chosen, a.limit) if chosen else 0
    wrong += compare(a, written, a.written) if written else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
