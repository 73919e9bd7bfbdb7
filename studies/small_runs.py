"""Small trainings that studies share: texts, run files, runs that are not made twice, their curves.

Everything of a study lies in a folder of its own (--work) and stays there: started again, a script
goes on with what is missing.
"""
import argparse
import csv
import gzip
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
GCIDE = pathlib.Path("/usr/share/dictd/gcide.dict.dz")
OPTIMIZER = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}
HELD_OUT = 40  # every 40th paragraph is for validation


def parser(doc, name):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=pathlib.Path, default=ROOT / "runs" / "studies" / name,
                   help="where runs are kept (runs/studies/…)")
    p.add_argument("--text", type=pathlib.Path, help="a plain text; else Debian's dict-gcide")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--tessera", default=str(ROOT / "build" / "tessera"))
    return p


class Study:
    """The folder of a study, the program, and what is in it."""

    def __init__(self, options):
        self.options, self.work = options, options.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)

    def tessera(self, *arguments):
        command = [self.options.tessera, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr.strip()[-2000:]}")
        return done.stdout

    def whole_text(self):
        if self.options.text:
            return self.options.text.read_text(encoding="utf-8", errors="replace")
        if not GCIDE.exists():
            raise SystemExit("no text: give --text, or install Debian's dict-gcide")
        return gzip.open(GCIDE).read().decode("utf-8", errors="replace")

    def texts(self, megabytes):
        """train.txt and valid.txt of the first three quarters of the text, tune.txt and
        tune-valid.txt of the last; blank lines part paragraphs."""
        paths = {n: self.work / f"{n}.txt" for n in ("train", "valid", "tune", "tune-valid")}
        if all(p.exists() for p in paths.values()):
            return paths
        text = self.whole_text()
        paragraphs = text.split("\n\n")
        thin = max(1, len(text) // int(megabytes * 1e6))  # every so many-th, all letters alike
        paragraphs = paragraphs[::thin]
        cut = len(paragraphs) * 3 // 4
        for name, part in (("train", paragraphs[:cut]), ("tune", paragraphs[cut:])):
            valid = "valid" if name == "train" else "tune-valid"
            paths[name].write_text("\n\n".join(p for i, p in enumerate(part) if i % HELD_OUT))
            paths[valid].write_text("\n\n".join(part[::HELD_OUT]))
        return paths

    def corpus(self, vocabulary, megabytes, kind="byte_bpe", *more):
        """Datasets of the texts: self.work/train, valid, tune, tune-valid. Returns the tokenizer."""
        paths = self.texts(megabytes)
        tokenizer = self.work / ("tokenizer.json" if kind == "byte_bpe" else "tokenizer.model")
        if not tokenizer.exists():
            self.tessera("tokenizer", "train", "--kind", kind, "--vocabulary", vocabulary, "--out",
                         tokenizer, *more, paths["train"])
        for name, path in paths.items():
            if not (self.work / f"{name}.idx").exists():
                self.tessera("data", "build", "--tokenizer", tokenizer, "--split", "paragraphs",
                             "--out", self.work / name, path)
        return tokenizer

    def run_file(self, name, sections):
        """The run file NAME.yaml of nested sections. YAML reads JSON."""
        run = {"name": name, "directory": str(self.work / name), "threads": self.options.threads}
        tree = sections | {"run": run | sections.get("run", {})}
        path = self.work / f"{name}.yaml"
        path.write_text(json.dumps(tree, indent=1) + "\n")
        return path

    def train(self, name, sections):
        """Trains unless the run is there already; returns its curve."""
        run, steps = self.run_file(name, sections), sections["schedule"]["steps"]
        folder = self.work / name
        if not (folder / "checkpoints" / str(steps)).exists():
            print(f"training {name}", flush=True)
            self.tessera("train", run)
        return Curve(folder)

    def start(self, name, sections):
        """The weights of a run before its first step: a checkpoint, and a folder for transformers."""
        schedule = sections["schedule"] | {"steps": 0, "warmup_steps": 0}
        self.train(name, sections | {"schedule": schedule})
        return self.work / name, self.export(name)

    def export(self, name):
        folder = self.work / f"{name}.hf"
        if not folder.exists():
            self.tessera("checkpoint", "export", self.work / name, "--to", folder)
        return folder

    def batches(self, run, steps, sequences):
        """The token ids that `steps` steps of a run read: [steps · sequences][T + 1]."""
        path = run.with_suffix(".ids.json")
        if not path.exists():
            out = self.tessera("data", "explain", run, "--step", 1, "--json",
                               f"batch.global={steps * sequences}")
            path.write_text(json.dumps([s["tokens"] for s in json.loads(out)["samples"]]))
        return path

    def peer(self, name, model, like, validation=None, bf16=None):
        """PyTorch trains `model`, a folder for transformers, on the batches and at the rates of our
        run `like`. Returns its curve; its model is in self.work/NAME."""
        out = self.work / name
        run = json.loads((self.work / f"{like}.yaml").read_text())
        rates = [rate for _, rate in Curve(self.work / like).of("learning_rate")]
        sequences = run["batch"]["global"]
        if not (out / "curve.json").exists():
            print(f"training {name} with PyTorch", flush=True)
            job = {"model": str(model), "rates": rates, "sequences": sequences, "bf16": bf16,
                   "ids": str(self.batches(self.work / f"{like}.yaml", len(rates), sequences)),
                   "optimizer": OPTIMIZER | run["optimizer"], "out": str(out),
                   "threads": self.options.threads, "validation": validation}
            path = self.work / f"{name}.job.json"
            path.write_text(json.dumps(job))
            done = subprocess.run([peer_python(), ROOT / "studies" / "peer_train.py", path],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"PyTorch: {done.stderr[-2000:]}")
        return PeerCurve(out)


class Curve:
    """What a run measured: loss and norm of each step, validation losses by step."""

    def __init__(self, folder):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.steps = [r for r in rows if "loss" in r]
        self.validations = [(r["step"], r["validation_loss"]) for r in rows if "validation_loss" in r]

    def of(self, key):
        return [(r["step"], r[key]) for r in self.steps]

    @property
    def validation(self):
        return self.validations[-1][1]

    def last(self, steps):
        return statistics.mean(r["loss"] for r in self.steps[-steps:])


class PeerCurve(Curve):
    def __init__(self, folder):
        curve = json.loads((folder / "curve.json").read_text())
        self.steps = curve["steps"]
        self.validations = [(len(self.steps), curve["validation"])]


def peer_python():
    """Of the environment that scripts/peer_environment.sh makes."""
    done = subprocess.run(["bash", "-ec", '. scripts/peer_environment.sh; echo "$peer/bin/python"'],
                          cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def smooth(points, over):
    """Means of `over` neighbours, one point for each stretch of them."""
    return [(points[i + over - 1][0], statistics.mean(y for _, y in points[i:i + over]))
            for i in range(0, len(points) - over + 1, over)]


def write_csv(path, header, rows):
    with open(path, "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def add_rows(path, header, rows, seed):
    """Writes the table with these rows in place of those of their seeds, which stand in column `seed`,
    and returns all."""
    seeds = {str(r[seed]) for r in rows}
    old = list(csv.reader(path.open()))[1:] if path.exists() else []
    out = sorted([r for r in old if r[seed] not in seeds] + [[str(x) for x in r] for r in rows],
                 key=lambda r: int(r[seed]))
    write_csv(path, header, out)
    return out


def percent(a, b):
    return 100 * (a / b - 1)
