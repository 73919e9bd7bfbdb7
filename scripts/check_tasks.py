#!/usr/bin/env python3
"""Compares our results in tasks with those of lm-evaluation-harness (PyPI lm-eval) on the same exported model.

usage: check_tasks.py TESSERA CHECKPOINT HF_FOLDER DATA_FOLDER [--published] [--ranks N] [--layout L]
                      [--limit N] [--written N] [TASK.yaml …]

Each task file is turned into a configuration of lm-eval's own task class, which reads the same JSON
lines. Every log-likelihood must agree within 1e-3, every text that is written and every metric exactly.

--published compares tasks by name with the definitions that lm-eval itself has. The examples of
DATA_FOLDER are first written as the published datasets are (question, choices, answerKey, …), which both
sides then read. --ranks starts our evaluation with mpirun, on a layout if --layout names one.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
FILTER = "extracted"  # the answer out of what was written
BOUND = 1e-3
METRICS = {"accuracy": "acc", "accuracy_length": "acc_norm", "perplexity": "perplexity",
           "exact_match": "exact_match", "exact_match_last": "exact_match"}
FILTERS = {"exact_match": [FILTER, "strict-match"], "exact_match_last": ["flexible-extract"]}


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
    if kind == "choice" and task["response"] == "{choices}":
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
                                    "regexes_to_ignore": [re.escape(t) for t in task.get("ignore", [])]
                                    + task.get("ignore_patterns", [])}]}
    return config


# ---- The published forms of the examples, from those of DATA_FOLDER.

def lettered(e, stem):
    return {**stem, "choices": {"text": e["choices"], "label": list("ABCDE"[:len(e["choices"])])},
            "answerKey": "ABCDE"[e["gold"]]}


def arc(e):
    return lettered(e, {"question": e["query"].removeprefix("Question: ")})


def boolq(e):
    passage, _, question = e["query"].removeprefix("Passage: ").rpartition("\nQuestion: ")
    return {"passage": passage, "question": question.removesuffix("?"), "label": e["gold"]}


def copa(e):
    premise, _, word = e["query"].rpartition(" ")
    premise = premise.rstrip(",")
    first = [c[0].upper() + c[1:] for c in e["choices"]]
    return {"premise": premise + ".", "question": "cause" if word == "because" else "effect",
            "choice1": first[0], "choice2": first[1], "label": e["gold"]}


def winogrande(e):
    a, b = e["context_options"]
    same = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), min(len(a), len(b)))
    same = a.rfind(" ", 0, same) + 1
    return {"sentence": a[:same] + "_ " + e["continuation"], "option1": a[same:], "option2": b[same:],
            "answer": str(e["gold"] + 1)}


def social_iqa(e):
    found = re.fullmatch(r"Context: (.*)\nQuestion: (.*)\nChoices:\nA\. (.*)\nB\. (.*?)(?:\nC\. (.*))?\nAnswer:",
                         e["query"], re.S)
    context, question, *answers = found.groups()
    return {"context": context, "question": question, "answerA": answers[0], "answerB": answers[1],
            "answerC": answers[2] or "None of them.", "label": str(e["gold"] + 1)}


PUBLISHED = {  # our name: file in DATA_FOLDER, conversion of a line
    "arc_easy": ("arc_easy", arc),
    "arc_challenge": ("arc_challenge", arc),
    "boolq": ("boolq", boolq),
    "copa": ("copa", copa),
    "piqa": ("piqa", lambda e: {"goal": e["query"].removeprefix("Question: ").removesuffix("\n"),
                                "sol1": e["choices"][0], "sol2": e["choices"][1], "label": e["gold"]}),
    "openbookqa": ("openbook_qa", lambda e: lettered(e, {"question_stem": e["query"]})),
    "social_iqa": ("siqa", social_iqa),
    "winogrande": ("winogrande", winogrande),
    "lambada_openai": ("lambada_openai", lambda e: {"text": e["context"] + " " + e["continuation"]}),
    "gsm8k": ("gsm8k", lambda e: {"question": e["context"],
                                  "answer": f"{e['chain_of_thought']}\n#### {e['answer']}"}),
    # Made of other tasks' texts: there are no examples of these two in DATA_FOLDER.
    "hellaswag": ("arc_easy", lambda e: {
        "activity_label": "Science [header]", "ctx_a": e["query"] + " [title] It  is asked [substeps]",
        "ctx_b": "THE answer is", "endings": [f" {c} [step] And  so on. " for c in (e["choices"] * 2)[:4]],
        "label": str(e["gold"] % 4)}),
    "mmlu_anatomy": ("arc_easy", lambda e: {
        "question": e["query"] + " ", "subject": "anatomy", "choices": (e["choices"] * 2)[:4],
        "answer": e["gold"] % 4}),
}


# Where lm-eval's own definitions are, below its folder `tasks`. Its index of all tasks takes a minute.
DEFINITIONS = {
    "arc_easy": "arc/arc_easy",
    "arc_challenge": "arc/arc_challenge",
    "boolq": "super_glue/boolq/default",
    "copa": "super_glue/copa/default",
    "piqa": "piqa/piqa",
    "openbookqa": "openbookqa/openbookqa",
    "social_iqa": "siqa/siqa",
    "winogrande": "winogrande/default",
    "lambada_openai": "lambada/lambada_openai",
    "gsm8k": "gsm8k/gsm8k",
    "hellaswag": "hellaswag/hellaswag",
    "mmlu_anatomy": "mmlu/default/mmlu_anatomy",
}


def write_published(name, source, folder, limit):
    file, convert = PUBLISHED[name]
    lines = (source / f"{file}.jsonl").read_text(encoding="utf-8").split("\n")
    out = folder / f"{'mmlu' if name.startswith('mmlu') else name}.jsonl"
    with out.open("w", encoding="utf-8") as f:
        for line in [x for x in lines if x][:limit]:
            f.write(json.dumps(convert(json.loads(line)), ensure_ascii=False) + "\n")
    return out


def own_config(name, data):
    """lm-eval's own definition of a task, on a file instead of a dataset that is downloaded."""
    import lm_eval.tasks
    from lm_eval.tasks._yaml_loader import load_yaml
    config = load_yaml(Path(lm_eval.tasks.__file__).parent / f"{DEFINITIONS[name]}.yaml")
    for key in ["dataset_name", "training_split", "validation_split", "fewshot_split", "fewshot_config", "tag",
                "task_alias", "group"]:
        config.pop(key, None)
    return config | {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}},
                     "test_split": "test", "num_fewshot": 0}


def compare_published(a, names, limit):
    with tempfile.TemporaryDirectory() as folder:
        configs = [own_config(n, write_published(n, Path(a.data), Path(folder), limit)) for n in names]
        reference = harness(a.hf_folder, configs, limit)
        results, examples = ours(a, names, limit, folder)
    return report(a, results, examples, reference)


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
    configs = [harness_config(t, n, Path(a.data) / f"{PUBLISHED[n][0] if n in PUBLISHED else Path(t['data']).stem}.jsonl")
               for n, t in specs.items()]
    reference = harness(a.hf_folder, configs, limit)
    results, examples = ours(a, files, limit, a.data)
    return report(a, results, examples, reference)


def report(a, results, examples, reference):
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
    # With several filters, an example is listed once per filter.
    by_id = {s["doc_id"]: s for s in reference["samples"][name]}
    theirs = [by_id[i] for i in sorted(by_id)]
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
        keys = [f"{METRICS.get(metric)},{f}" for f in (FILTERS[metric] if writes else ["none"])]
        key = next((k for k in keys if k in reference["results"][name]), None)
        if key is None:
            continue
        other = reference["results"][name][key]
        same = abs(value["value"] - other) <= 1e-3 * max(1, abs(other))
        ok, compared = ok and same, compared + 1
        line += f"  {metric} {value['value']:.4f}{' = ' if same else ' ≠ '}{other:.4f}"
    return line, ok and compared > 0


def ours(a, tasks, limit, data):
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "examples.jsonl"
        command = [a.tessera, "eval", a.checkpoint, "--data", data, "--json", "--shots", "0",
                   "--limit", str(limit), "--examples", str(rows), "--layout", a.layout]
        if a.ranks > 1:
            command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(a.ranks), *command]
        for t in tasks:
            command += ["--task", str(t)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
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
    p.add_argument("--published", action="store_true", help="by name, with lm-eval's own definitions")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--layout", default="auto")
    a = p.parse_intermixed_args()
    if a.published:
        names = [str(t) for t in a.tasks] or list(PUBLISHED)
        chosen = [n for n in names if n != "gsm8k"]
        wrong = compare_published(a, chosen, a.limit) if chosen else 0
        wrong += compare_published(a, ["gsm8k"], a.written) if "gsm8k" in names else 0
        return 1 if wrong else 0
    files = a.tasks or [f for f in sorted((ROOT / "configs/tasks").glob("*.yaml"))
                        if f.stem not in ("hellaswag", "mmlu")]
    written = [f for f in files if yaml.safe_load(f.read_text())["kind"] == "exact_match"]
    chosen = [f for f in files if f not in written]
    wrong = compare(a, chosen, a.limit) if chosen else 0
    wrong += compare(a, written, a.written) if written else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
