"""Tries the completions that scripts/shell_files.py writes: those of bash by typing TAB in an interactive bash, those of zsh
and fish if these shells are installed.

usage: completion_test.py SOURCE PROGRAM
"""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

# What is typed before TAB, and what the line then is. The folder has data/, model/, run.yaml, "a file.txt" and help1.
TYPED = [
    ("tessera dat", "tessera data "),  # not data/
    ("tessera ma", "tessera ma"),
    ("tessera he", "tessera help "),
    ("tessera help chec", "tessera help check"),  # checkpoint, check-coordinates
    ("tessera help checkp", "tessera help checkpoint "),
    ("tessera help config expl", "tessera help config explain "),
    ("tessera config help pri", "tessera config help print "),
    ("tessera config pri", "tessera config print "),
    ("tessera train ru", "tessera train run.yaml "),
    ("tessera train mod", "tessera train model/"),
    ("tessera train a", "tessera train a\\ file.txt "),
    ("tessera train pythia-16", "tessera train pythia-160m "),
    ("tessera train --from", "tessera train --from-step "),
    ("tessera train run.yaml optimizer.lea", "tessera train run.yaml optimizer.learning_rate="),
    ("tessera train --json run.yaml optim", "tessera train --json run.yaml optimizer."),
    ("tessera train run.yaml model.rope_sc", "tessera train run.yaml model.rope_scaling."),
    ("tessera train run.yaml schedule.kind=inv", "tessera train run.yaml schedule.kind=inverse_sqrt "),
    ("tessera train run.yaml model.preset=pythia-41", "tessera train run.yaml model.preset=pythia-410m "),
    ("tessera train run.yaml data.tokenizer=ru", "tessera train run.yaml data.tokenizer=run.yaml "),
    ("tessera train run.yaml layout.overlap=ru", "tessera train run.yaml layout.overlap=ru"),
    ("tessera finetune --from model --data run.yaml optimizer.lea",
     "tessera finetune --from model --data run.yaml optimizer.learning_rate="),
    ("tessera plan run.yaml --cluster h10", "tessera plan run.yaml --cluster h100 "),
    ("tessera plan run.yaml --cluster=h10", "tessera plan run.yaml --cluster=h100 "),
    ("tessera plan run.yaml --cluster ru", "tessera plan run.yaml --cluster run.yaml "),
    ("tessera plan run.yaml --devices ", "tessera plan run.yaml --devices "),
    ("tessera plan --cluster h100 pythia-16", "tessera plan --cluster h100 pythia-160m "),
    ("tessera eval model --task gsm", "tessera eval model --task gsm8k "),
    ("tessera generate model --device cu", "tessera generate model --device cuda "),
    ("tessera generate model --seed --to", "tessera generate model --seed --to"),
    ("tessera generate model --prompts ru", "tessera generate model --prompts run.yaml "),
    ("tessera generate model --prompt ru", "tessera generate model --prompt ru"),
    ("tessera config explain schedule.min_lr_r", "tessera config explain schedule.min_lr_ratio "),
    ("tessera config explain loss_sc", "tessera config explain loss_scale"),
    ("tessera sweep run.yaml optimizer.lea", "tessera sweep run.yaml optimizer.learning_rate="),
    ("tessera doctor --js", "tessera doctor --json "),
]
# With COMP_WORDS: all words that are offered.
OFFERED = [
    (["tessera", "plan", "r", "--devices", ""], []),
    (["tessera", "train", "r", "schedule.kind", "="], ["cosine", "linear", "inverse_sqrt", "constant", "wsd"]),
    (["tessera", "train", "r", "run.tf32", "=", ""], ["true", "false"]),
    (["tessera", "tune", "r", "--knob", "compiler.att"], ["compiler.attention=", "compiler.attention_scores_dtype="]),
    (["tessera", "sweep", "r", "--method", ""], ["random", "grid"]),
    (["tessera", "eval", "m", "--long-examples", ""], ["error", "skip", "truncate"]),
    (["tessera", "config", ""], ["explain", "print", "help"]),
    (["tessera", "help", "config", ""], ["explain", "print", "help"]),
]


class Terminal:
    """An interactive bash whose completions are loaded."""

    def __init__(self, completions, folder):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="dumb", PS1="$ ", INPUTRC="/dev/null", HOME=str(folder), LC_ALL="C")
            os.execvp("bash", ["bash", "--norc", "-i"])
        self.ask(f"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; . '{completions}'")

    def read_until(self, mark):
        said, end = "", time.time() + 20
        while mark not in said:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.time()))
            if not ready:
                raise TimeoutError(f"bash wrote {said!r}, expected {mark!r}")
            said += os.read(self.fd, 4096).decode()
        return said

    def ask(self, line):
        os.write(self.fd, (line + "; echo 'd'one\n").encode())
        return self.read_until("\r\ndone\r\n")

    def completed(self, typed):
        """Returns the line after TAB. Ctrl-A and a quote turn the line into an argument of printf."""
        os.write(self.fd, (typed + "\t").encode() + b"\x05'\x01printf '<%s>\\n' '\n")
        return re.search(r"\r\n<(.*)>\r\n", self.read_until(">\r\n")).group(1)


def check_bash(completions, folder):
    terminal = Terminal(completions, folder)
    for typed, expected in TYPED:
        found = terminal.completed(typed)
        assert found == expected, f"bash completes {typed!r} to {found!r}, expected {expected!r}"
    script = '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tessera; printf "%s\\n" "${COMPREPLY[@]}"'
    for words, expected in OFFERED:
        done = subprocess.run(["bash", "-c", script, "bash", completions, *words], cwd=folder, capture_output=True, text=True,
                              check=True)
        assert done.stdout.split() == expected, (words, done.stdout.split())
    # An argument that bash does not divide at '='.
    done = subprocess.run(["bash", "-c", "COMP_WORDBREAKS=' '; " + script, "bash", completions, "tessera", "train", "r",
                           "schedule.kind=inv"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "schedule.kind=inverse_sqrt\n", done.stdout


def check_fish(completions, folder):
    fish = shutil.which("fish")
    for typed, expected in [("tessera trai", "train"), ("tessera dat", "data"), ("tessera help conf", "config"),
                            ("tessera plan r --cluster h10", "h100"), ("tessera eval m --task gsm", "gsm8k"),
                            ("tessera train pythia-16", "pythia-160m"),
                            ("tessera train r optimizer.lea", "optimizer.learning_rate="),
                            ("tessera train r schedule.kind=inv", "schedule.kind=inverse_sqrt")] if fish else []:
        done = subprocess.run([fish, "--no-config", "-c", f"source {completions}; complete -C '{typed}'"], cwd=folder,
                              capture_output=True, text=True, check=True)
        found = [line.split("\t")[0] for line in done.stdout.splitlines()]
        assert found == [expected], f"fish completes {typed!r} with {found}, expected {expected}: {done.stderr}"


def check_zsh(completions):
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", completions], check=True)


def main():
    source, program = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.executable, source / "scripts/shell_files.py", "--program", program, "--out", folder / "out"], check=True)
        here = folder / "here"
        for below in ("data", "model"):
            (here / below).mkdir(parents=True)
        for file in ("run.yaml", "a file.txt", "help1"):
            (here / file).write_text("")
        check_bash(folder / "out/tessera", here)
        check_fish(folder / "out/tessera.fish", here)
        check_zsh(folder / "out/_tessera")
    return 0


if __name__ == "__main__":
    sys.exit(main())
