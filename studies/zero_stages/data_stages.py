"""The data-processing half: what each stage of the pipeline makes a second, and how long steps wait."""
import gzip
import json
import statistics
import subprocess
import time

import small_runs

ROWS, TOKENS = 4000, 512  # of a row that is timed; as many as T5's targets need in the decoder
MODELS = {"1 layer x 32": dict(layers=1, encoder_layers=1, hidden=32, heads=1, feed_forward=64),
          "2 layers x 96": dict(layers=2, encoder_layers=2, hidden=96, heads=2, feed_forward=192)}
OBJECTIVES = {"next tokens": {}, "intra-document masking": {"intra_document_masking": True},
              "span corruption": {"objective": "span_corruption"}}
WORKERS = (1, 2)
PROGRAM = small_runs.ROOT / "build" / "studies" / "data_rates"


def rates(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"data_rates: {done.stderr.strip()}")
    return {s["stage"]: s for s in json.loads(done.stdout)}


def row(stage, workers, megabytes, wall_s, cpu_s, tokens=None):
    """A line of the table. Megabytes are those of text that the stage's input stands for."""
    return [stage, workers, f"{megabytes / wall_s:.1f}", f"{megabytes / cpu_s:.1f}",
            f"{tokens / cpu_s:.0f}" if tokens else ""]


def whole(study):
    """The text that is read and encoded here: all of it, since caches of words need some to fill."""
    path = study.work / "whole.txt"
    if not path.exists():
        path.write_text(study.whole_text())
    return path


def reading(study):
    """Files to documents."""
    text = whole(study)
    paragraphs = [p for p in text.read_text().split("\n\n") if p]
    lines = "".join(json.dumps({"text": p}, ensure_ascii=False) + "\n" for p in paragraphs).encode()
    files = {"paragraphs of text": text, "JSON lines": study.work / "whole.jsonl",
             "JSON lines, gzip": study.work / "whole.jsonl.gz"}
    files["JSON lines"].write_bytes(lines)
    files["JSON lines, gzip"].write_bytes(gzip.compress(lines))
    out = []
    for name, path in files.items():
        t = rates("text", path)["read"]
        out.append(row(f"read: {name}", 1, t["bytes"] / 1e6, t["wall_s"], t["cpu_s"]))
    return out


def encoding(study):
    """Text to ids, by tokenizer and worker threads; then all from text to a token file."""
    text, out = whole(study), []
    megabytes = text.stat().st_size / 1e6
    bpe = study.work / "tokenizer.json"
    if not bpe.exists():
        study.tessera("tokenizer", "train", "--vocabulary", 2048, "--out", bpe,
                      study.work / "train.txt")
    kinds = {"byte-level BPE": bpe, "SentencePiece unigram": study.work / "tokenizer.model"}
    for kind, tokenizer in kinds.items():
        for threads in WORKERS:
            t = json.loads(study.tessera("tokenizer", "encode", "--tokenizer", tokenizer, "--split",
                                         "paragraphs", "--summary", "--json", "--threads", threads,
                                         text))
            out.append(row(f"encode: {kind}", threads, megabytes, t["encode_s"], t["cpu_s"],
                           t["tokens"]))
    for threads in WORKERS:
        began = time.monotonic()
        study.tessera("data", "build", "--tokenizer", tokenizer, "--split", "paragraphs",
                      "--threads", threads, "--out", study.work / "built", text)
        wall = time.monotonic() - began
        out.append(["text to token file: unigram", threads, f"{megabytes / wall:.1f}", "", ""])
    return out, megabytes / t["tokens"]


def sections(study, model, data, tokens):
    """A run of the unigram corpus; of a decoder alone unless the objective wants an encoder."""
    pairs = "objective" in data
    family = {"family": "t5", "head_width": 32} | MODELS[model]
    plain = {k: v for k, v in MODELS[model].items() if k != "encoder_layers"} | {"family": "llama"}
    source = {} if "instructions" in data else {"train": [str(study.work / "train")]}
    return {
        "run": {"seed": 1, "threads": 1},
        "model": (family if pairs else plain) | {"context": tokens, "vocabulary_multiple": 1},
        "data": {"tokenizer": str(study.work / "tokenizer.model"), "sequence_length": tokens}
        | source | data,
        "batch": {"global": 16, "micro": 4},
        "schedule": {"kind": "constant", "steps": 60},
        "precision": "fp32",
        "checkpoint": {"every_steps": 0},
        "metrics": {"validate_every_steps": 0, "tensorboard": False},
    }


def instructions(study):
    """Prompts and responses made of the text: the first 8 words of a paragraph, and the rest."""
    path = study.work / "pairs.jsonl"
    words = [p.split() for p in (study.work / "train.txt").read_text().split("\n\n")]
    path.write_text("".join(
        json.dumps({"prompt": " ".join(w[:8]), "response": " ".join(w[8:])}) + "\n"
        for w in words if len(w) > 8))
    return {"instructions": [str(path)], "template": "{prompt} {response}", "long_examples": "skip"}


def rows(study, megabytes_a_token):
    """Token files to rows, and rows to batches behind the reading thread."""
    out = []
    names = {"tokens": "sample of a token file", "pack": "pack", "rows": "rows",
             "batches": "batches"}
    for name, data in (OBJECTIVES | {"instructions": instructions(study)}).items():
        run = study.run_file("rows", sections(study, "1 layer x 32", data, TOKENS))
        for stage, t in rates("rows", run, ROWS).items():
            if stage == "tokens" and name != "next tokens":
                continue  # the same for all
            # Who asks for batches waits; the thread that makes them is measured by "rows".
            cpu = t["wall_s"] if stage == "batches" else t["cpu_s"]
            out.append(row(f"{names[stage]}: {name}", 1, t["tokens"] * megabytes_a_token,
                           t["wall_s"], cpu, t["tokens"]))
    return out


def waits(study):
    """The share of a step that waits for its batch, of models that are ever smaller."""
    out = []
    for model in MODELS:
        for name in ("next tokens", "span corruption"):
            run = f"waits-{model}-{name}".replace(" ", "-")
            curve = study.train(run, sections(study, model, OBJECTIVES[name], 128))
            step, data = (statistics.median(r[k] for r in curve.steps[5:])
                          for k in ("step_s", "data_s"))
            most = max(r["data_s"] / r["step_s"] for r in curve.steps[5:])
            out.append([model, name, f"{1e3 * step:.2f}", f"{1e6 * data:.0f}",
                        f"{100 * data / step:.3f}", f"{100 * most:.3f}"])
    return out
