"""The kinds of the arguments and option values of tessera, read from its help. Shells complete them by their kind.

A kind is "file", "recipe", "cluster", "software", "task" (the last four: a name in configs/, or a file), "key" (a run-file
key), "override" (KEY=VALUE), "choice:a,b" (a or b) or "none" (free text or a number).
"""
import json
import pathlib
import re
import subprocess
from dataclasses import dataclass

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"
FOLDERS = {"recipe": "recipes", "cluster": "clusters", "software": "software", "task": "tasks"}
LISTED_VALUES = ("D", "HOW", "P", "SPLIT", "TYPE", "W")  # their help lists them: "device: auto, cpu or cuda"
FILE_VALUES = ("FILE", "DIR", "CHECKPOINT", "PREFIX")


@dataclass
class Known:
    """Names and values that do not depend on the command."""
    names: dict   # kind: names of configs/, "recipe": ["pythia-70m", …]
    values: dict  # run-file key: the kind of its value


def read_known(program):
    """Asks the program for the run-file keys, and reads the names in configs/."""
    def explain(*arguments):
        return subprocess.run([program, "config", "explain", *arguments], capture_output=True, text=True, check=True).stdout

    names = {kind: sorted(path.stem for path in (CONFIGS / folder).glob("*.yaml")) for kind, folder in FOLDERS.items()}
    values = {}
    for key in json.loads(explain("--json"))["keys"]:
        name, kind = key["key"], key["type"].replace(" ", "")
        if re.fullmatch(r"\w+(\|\w+)+", kind):
            values[name] = "choice:" + kind.replace("|", ",")
        elif kind == "text":
            values[name] = "file"
        else:
            values[name] = "none"
    families = explain("model.preset").splitlines()[3:]
    values["model.preset"] = "choice:" + ",".join(preset for line in families for preset in line.split(": ")[1].split(", "))
    values["layout.cluster"] = "cluster"
    for name in ("run.name", "data.template", "data.split", "data.template_date", "layout.recompute", "layout.offload"):
        values[name] = "none"  # text that is not a path
    return Known(names, values)


def value_kind(name, value, text):
    """The kind of the value of an option, as its help describes it; "" for an option without one."""
    if not value:
        return ""
    if name.removeprefix("--") in FOLDERS:
        return name.removeprefix("--")
    if re.fullmatch(r"\w+(\|\w+)+", value):
        return "choice:" + value.replace("|", ",")
    if value in LISTED_VALUES:
        listed = re.search(r": (\w+(?:, \w+)*,? or \w+)|(\w+(?: \| \w+)+)", text)
        return "choice:" + ",".join(re.split(r",? or |, | \| ", listed.group())).removeprefix(": ") if listed else "none"
    if value == "KEY=A,B":
        return "override"
    return "file" if value in FILE_VALUES or name in ("--tokenizer", "--out") else "none"


def argument_kinds(command):
    """The kinds of the arguments that are not options, in order. A kind that ends with "*" can be repeated."""
    kinds = []
    for name, text in command.positionals:
        if name == "key=value":
            kinds.append("override*")
            continue
        kind = "key" if name == "KEY" else "recipe" if name.startswith("RUN") and "run file" in text else "file"
        repeated = re.search(rf"\[?{re.escape(name)} ?…", command.usage)
        kinds.append(kind + "*" if repeated else kind)
    return kinds
