"""The data-processing half: what each stage of the pipeline makes a second, and how long steps wait."""
import json
import statistics
import subprocess

import small_runs

ROWS = 4000
MODELS = {"1 layer x 32": dict(layers=1, encoder_layers=1, hidden=32, heads=1, feed_forward=64),
          "2 layers x 96": dict(layers=2, encoder_layers=2, hidden=96, heads=2, feed_forward=192)}
OBJECTIVES = {
    "rows: next tokens": {"sequence_length": 128},
    "rows: documents apart": {"sequence_length": 128, "documents_apart": True},
    "rows: span corruption": {"sequence_length": 128, "objective": "span_corruption"},
}


def encoding(study):
    """Text to ids, by tokenizer and worker threads."""
    text, out = study.work / "train.txt", []
    megabytes = text.stat().st_size / 1e6
    bpe = study.work / "tokenizer.json"
    if not bpe.exists():
        study.tessera("tokenizer", "train", "--vocabulary", 2048, "--out", bpe, text)
    for kind, tokenizer in (("unigram", study.work / "tokenizer.model"), ("byte-level BPE", bpe)):
        for threads in (1, 2):
            t = json.loads(study.tessera("tokenizer", "encode", "--tokenizer", tokenizer, "--split",
                                         "paragraphs", "--summary", "--json", "--threads", threads,
                                         text))
            out.append([f"encode: {kind}", threads, f"{megabytes / t['encode_s']:.2f}",
                        f"{megabytes / t['cpu_s']:.2f}", f"{t['tokens'] / t['cpu_s']:.0f}"])
    return out, megabytes * 1e6 / t["tokens"]


def sections(study, model, data):
    """A run of the unigram corpus; of a decoder alone unless the objective wants an encoder."""
    pairs = "objective" in data
    family = {"family": "t5", "head_width": 32} | MODELS[model]
    plain = {k: v for k, v in MODELS[model].items() if k != "encoder_layers"} | {"family": "llama"}
    return {
        "run": {"seed": 1, "threads": 1},
        "model": (family if pairs else plain) | {"context": 128, "vocabulary_multiple": 1},
        "data": {"tokenizer": str(study.work / "tokenizer.model"),
                 "train": [str(study.work / "train")]} | data,
        "batch": {"global": 16, "micro": 4},
        "schedule": {"kind": "constant", "steps": 60},
        "precision": "fp32",
        "checkpoint": {"every_steps": 0},
        "metrics": {"validate_every_steps": 0, "tensorboard": False},
    }


def rows(study, bytes_a_token):
    """Token files to rows of a batch: one thread's own time, and behind the reading thread."""
    out = []
    for name, data in OBJECTIVES.items():
        run = study.run_file("rows", sections(study, "1 layer x 32", data))
        done = subprocess.run([small_runs.ROOT / "build" / "studies" / "data_rates", run, str(ROWS)],
                              capture_output=True, text=True, check=True)
        t = json.loads(done.stdout)
        rate = t["tokens_a_row"] / t["row_s"]
        behind = t["tokens_a_row"] / t["fill_s"]
        out.append([name, 1, f"{behind * bytes_a_token / 1e6:.1f}",
                    f"{rate * bytes_a_token / 1e6:.1f}", f"{rate:.0f}"])
    return out


def waits(study):
    """The share of a step that waits for its batch, of models that are ever smaller."""
    out = []
    for model in MODELS:
        for name in ("rows: next tokens", "rows: span corruption"):
            run = f"waits-{model}-{name}".replace(" ", "-").replace(":", "")
            curve = study.train(run, sections(study, model, OBJECTIVES[name]))
            step, data = (statistics.median(r[k] for r in curve.steps[5:])
                          for k in ("step_s", "data_s"))
            most = max(r["data_s"] / r["step_s"] for r in curve.steps[5:])
            out.append([model, name.split(": ")[1], f"{1e3 * step:.2f}", f"{1e6 * data:.0f}",
                        f"{100 * data / step:.3f}", f"{100 * most:.3f}"])
    return out
