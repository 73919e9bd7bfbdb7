"""Shared by the checks that train small models: texts, data, and what a run leaves."""
import hashlib
import json
import pathlib
import random
import re
import subprocess

SKIPPED = 77  # exit code of a check that cannot run here


def optimizer_kinds():
    """The optimizers, as docs/configuration.md lists them, which the program writes."""
    text = (pathlib.Path(__file__).resolve().parent.parent / "docs/configuration.md").read_text()
    return re.search(r"`optimizer\.kind` \| (\S+) \|", text).group(1).replace("\\", "").split("|")


def mpirun(seconds):
    """The start of a command on several ranks, which ends after that many seconds."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
            "--timeout", str(seconds)]


def byte_alphabet():
    """The 256 printable characters that stand for bytes in byte-level BPE, in the order of the bytes."""
    keep = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in keep else next(others)) for byte in range(256)]


def require_files(*paths):
    for path in paths:
        if not path.exists():
            raise SystemExit(f"{path} is missing; build first, or give --{path.stem}")


def run_tessera(tessera, *words):
    done = subprocess.run([tessera, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-1000:])


def build_data(tessera, work, text):
    """A tokenizer and the dataset `train` of one text file."""
    tokenizer = work / "tokenizer.json"
    run_tessera(tessera, "tokenizer", "train", "--vocabulary", 512, "--out", tokenizer, text)
    run_tessera(tessera, "data", "build", "--tokenizer", tokenizer, "--out", work / "train", text)


class RandomTexts:
    """text.txt, one long text of random words, and lines.txt, 800 short ones. The same on every
    machine."""

    def __init__(self, work):
        self.rng = rng = random.Random(5)
        self.words = ["".join(rng.choices("aeiounrstlm", k=rng.randint(1, 9))) for _ in range(300)]
        (work / "text.txt").write_text(self.text(4000))
        self.lines = [" ".join(rng.choices(self.words, k=rng.randint(1, 6))) for _ in range(800)]
        (work / "lines.txt").write_text("\n".join(self.lines))

    def text(self, words):
        return " ".join(self.rng.choice(self.words) for _ in range(words))

    def examples(self):
        """Instructions as JSON lines, with short answers."""
        return [json.dumps({"prompt": line, "response": self.text(self.rng.randint(1, 4))})
                for line in self.lines]

    def pairs(self):
        """Pairs of answers as JSON lines; the first is the shorter one."""
        return [json.dumps({"prompt": line, "chosen": "a" * self.rng.choice([1, 2]),
                            "rejected": "e" * self.rng.choice([3, 4, 7])}) for line in self.lines]


def unigram_tokenizer(tessera, work):
    """Trains a SentencePiece model with sentinels on text.txt."""
    out = work / "spiece.model"
    run_tessera(tessera, "tokenizer", "train", "--kind", "unigram", "--vocabulary", 311,
                "--sentinels", 20, "--out", out, work / "text.txt")
    return out


def metrics(run):
    """The whole lines of metrics.jsonl in a run directory; a killed run may leave half a line."""
    path = run / "metrics.jsonl"
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


def checkpoint_digests(run, step):
    """{file: SHA-256} of a checkpoint of a run."""
    files = sorted((run / "checkpoints" / str(step)).iterdir())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
