#!/usr/bin/env python3
"""The same small LLaMA trained by Tessera and by PyTorch: curves, validation loss, tasks.

usage: studies/quality/quality.py [--work FOLDER] [--text FILE] [--tasks FOLDER] [--seeds 1 2 3]
Writes losses.csv, curves.csv, tasks.csv and quality.svg beside this file. Needs build/tessera and
the environment of scripts/peer_environment.sh.

Both start from the same weights and read the same batches at the same rates, in fp32. Tasks are two
that are made of the text that was held out, and, with --tasks, the sets of configs/tasks whose
examples are in FOLDER. One evaluator, ours, judges all models: PyTorch's are imported. PyTorch's
validation loss is its own. Seeds that are not run keep their rows in the tables.
"""
import collections
import itertools
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402
import small_runs  # noqa: E402
from small_runs import percent, smooth  # noqa: E402

VOCABULARY, MEGABYTES, OVER, LAST, STEPS = 2048, 12, 20, 100, 400
VALIDATED = 256  # sequences
GIVEN = ("arc_easy", "piqa", "copa", "openbook_qa")  # of --tasks, the first LIMIT examples of each
LIMIT, CHOICES, SEED = 100, 4, 7
SIDES = ("Tessera", "PyTorch")


def sections(study, seed):
    return {
        "run": {"seed": seed},
        "model": {"family": "llama", "layers": 3, "hidden": 96, "heads": 3, "feed_forward": 256,
                  "context": 128, "init": "normal", "output_init": "scaled_normal"},
        "data": {"tokenizer": str(study.work / "tokenizer.json"), "train": [str(study.work / "train")],
                 "validation": [str(study.work / "valid")], "sequence_length": 128},
        "batch": {"global": 8, "micro": 8},
        "optimizer": {"learning_rate": 2e-3},
        "schedule": {"kind": "cosine", "steps": STEPS, "warmup_steps": 25, "min_lr_ratio": 0.1},
        "precision": "fp32",
        "checkpoint": {"every_steps": 250, "keep": 1},
        "metrics": {"validate_every_steps": 0, "validate_sequences": VALIDATED,
                    "tensorboard": False},
    }


def train(study, seed):
    """Curves of both sides, and the checkpoints of their models."""
    _, first = study.start(f"start-{seed}", sections(study, seed))
    name = f"tessera-{seed}"
    ours = study.train(name, sections(study, seed))
    validation = [str(study.work / "valid.bin"), VALIDATED, 128]
    theirs = study.peer(f"pytorch-{seed}", first, name, validation)
    imported = study.work / f"pytorch-{seed}.checkpoint"
    if not imported.exists():
        folder = study.work / f"pytorch-{seed}"
        (folder / "tokenizer.json").write_bytes((study.work / "tokenizer.json").read_bytes())
        study.tessera("checkpoint", "import", "--from", folder, "--out", imported)
    return {"Tessera": (ours, study.work / name), "PyTorch": (theirs, imported)}


def own_tasks(study):
    """Of paragraphs held out: which of four endings is its own, and the last word of its beginning."""
    folder = study.work / "tasks"
    folder.mkdir(exist_ok=True)
    paragraphs = [" ".join(p.split()) for p in (study.work / "valid.txt").read_text().split("\n\n")]
    halves = []
    for words in (p.split(" ") for p in paragraphs):
        if len(words) >= 24:
            middle = min(len(words) // 2, 20)
            halves.append((" ".join(words[:middle]), " ".join(words[middle:middle + 12])))
    draw = random.Random(SEED)
    endings, last = [], []
    for i, (begin, end) in enumerate(halves[:300]):
        wrong = draw.sample([e for j, (_, e) in enumerate(halves) if j != i], CHOICES - 1)
        gold = draw.randrange(CHOICES)
        endings.append({"query": begin, "choices": wrong[:gold] + [end] + wrong[gold:], "gold": gold})
        context, _, word = begin.rpartition(" ")
        last.append({"context": context, "continuation": word})
    files = {"endings": ('kind: choice\nform: "{query} {response}"\nresponse: "{choices}"\ngold: gold\n',
                         endings),
             "last_word": ('kind: last_word\nform: "{context} {response}"\n'
                           'response: "{continuation}"\n', last)}
    for name, (task, rows) in files.items():
        (folder / f"{name}.yaml").write_text(f"{task}data: {name}.jsonl\n")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return [folder / f"{name}.yaml" for name in files]


def evaluate(study, checkpoint):
    """What `tessera eval --json` says of the tasks, kept beside the checkpoint."""
    kept = checkpoint.with_name(checkpoint.name + ".tasks.json")
    if not kept.exists():
        run = ["eval", checkpoint, "--json", "--threads", study.options.threads]
        out = json.loads(study.tessera(*run, *itertools.chain(
            *(["--task", t] for t in own_tasks(study)))))["results"]
        if study.options.tasks:
            files = [small_runs.ROOT / "configs" / "tasks" / f"{t}.yaml" for t in GIVEN]
            out += json.loads(study.tessera(*run, "--data", study.options.tasks, "--limit", LIMIT,
                                            *itertools.chain(*(["--task", t] for t in files))))["results"]
        kept.write_text(json.dumps(out))
    return json.loads(kept.read_text())


def write(results, tasks):
    rows = []
    for seed, sides in results.items():
        theirs = sides["PyTorch"][0]
        for side, (c, _) in sides.items():
            worst = max(abs(percent(a, b)) for (_, a), (_, b)
                        in zip(smooth(c.of("loss"), OVER), smooth(theirs.of("loss"), OVER)))
            rows.append([seed, side, f"{c.last(LAST):.5f}", f"{c.validation:.5f}", f"{worst:.1e}",
                         f"{percent(c.last(LAST), theirs.last(LAST)):+.1e}",
                         f"{percent(c.validation, theirs.validation):+.1e}"])
            print(*rows[-1], sep="\t")
    small_runs.add_rows(HERE / "losses.csv", [
        "seed", "side", f"loss_last_{LAST}_steps", "validation_loss",
        f"largest_difference_of_{OVER}_step_means_percent", "loss_to_pytorch_percent",
        "validation_to_pytorch_percent"], rows, 0)
    points = small_runs.add_rows(
        HERE / "curves.csv", ["seed", "side", "step", "loss", "grad_norm"],
        [[seed, side, n, f"{a:.5f}", f"{b:.5f}"]
         for seed, sides in results.items() for side, (c, _) in sides.items()
         for (n, a), (_, b) in zip(smooth(c.of("loss"), OVER), smooth(c.of("grad_norm"), OVER))], 0)
    small_runs.add_rows(HERE / "tasks.csv", ["task", "metric", "examples", "seed", *(
        f"{side}{what}" for side in SIDES for what in ("", "_standard_error"))], tasks, 3)
    for row in tasks:
        print(*row, sep="\t")
    picture(points)


def picture(points):
    curves = {column: collections.defaultdict(list) for column in (3, 4)}
    for row in points:
        for column, series in curves.items():
            series[f"{row[1]}, seed {row[0]}"].append((int(row[2]), float(row[column])))
    chart.draw(HERE / "quality.svg", [
        chart.Panel("LLaMA", "step", f"training loss, means of {OVER} steps", curves[3]),
        chart.Panel("LLaMA", "step", "gradient norm", curves[4], log_y=True)])


def main():
    parser = small_runs.parser(__doc__, "quality")
    parser.add_argument("--tasks", type=pathlib.Path, help="examples of configs/tasks as JSON lines")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    study = small_runs.Study(parser.parse_args())
    study.corpus(VOCABULARY, MEGABYTES)
    results = {seed: train(study, seed) for seed in study.options.seeds}
    tasks = []
    for seed, sides in results.items():
        found = {side: evaluate(study, checkpoint) for side, (_, checkpoint) in sides.items()}
        for ours, theirs in zip(found["Tessera"], found["PyTorch"]):
            for metric in ours["metrics"]:
                both = (x["metrics"][metric] for x in (ours, theirs))
                tasks.append([ours["task"], metric, ours["examples"], seed, *(
                    f"{x[k]:.4f}" for x in both for k in ("value", "standard_error"))])
    write(results, tasks)


if __name__ == "__main__":
    main()
