#!/usr/bin/env python3
"""Writes the man page and the shell completions of tessera, made from the program's own --help.

usage: scripts/shell_files.py --program build/tessera --out FOLDER
Writes FOLDER/tessera.1, FOLDER/tessera (bash), FOLDER/_tessera (zsh) and FOLDER/tessera.fish.
"""
import argparse
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

from shell_arguments import read_known
from shell_completions import all_commands, bash, fish, zsh


@dataclass
class Command:
    """One command, as its help describes it. `path` is () for the program itself."""
    path: tuple
    summary: str
    usage: str = ""
    positionals: list = field(default_factory=list)  # (name, help)
    options: list = field(default_factory=list)      # (name, value or "", help)
    children: list = field(default_factory=list)     # Command
    examples: list = field(default_factory=list)


def help_of(program, path):
    run = subprocess.run([program, *path, "--help"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"shell_files.py: '{' '.join(['tessera', *path])} --help' failed:\n{run.stderr}")
    return run.stdout.splitlines()


def entry_of(line):
    """('--seed', 'N', 'random seed') of '  --seed N  random seed'; None for other lines."""
    match = re.match(r"^  (\S.*?)(?:  +(\S.*))?$", line)
    if not match:
        return None
    name, _, value = match.group(1).partition(" ")
    return name, value, match.group(2) or ""


def read_command(program, path, summary):
    """Reads the help of a command, and of the commands below it."""
    command = Command(path, summary)
    section, names = "", []
    for line in help_of(program, path):
        if line.startswith("Usage: "):
            command.usage, section = line.removeprefix("Usage: "), "positionals"
        elif re.match(r"^[A-Z].*:$", line):
            section = line[:-1]
        elif line.startswith("  ") and section in ("Example", "Examples"):
            command.examples.append(line.strip())
        elif entry := entry_of(line):
            name, value, text = entry
            if name.startswith("-"):
                command.options.append((name, value, text))
            elif section == "positionals":
                command.positionals.append((name, text))
            else:
                names.append((name, text))
    command.children = [read_command(program, (*path, name), text) for name, text in names]
    return command


# ---- The man page

def roff(text):
    # A terminal whose locale is C shows no ellipsis.
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(program, version):
    lines = [f'.TH TESSERA 1 "" "tessera {version}" "User commands"', ".SH NAME",
             r"tessera \- pre-train and fine-tune large language models", ".SH SYNOPSIS", roff(program.usage),
             ".SH COMMANDS"]
    for command in all_commands(program):
        if not command.path or command.children:
            continue
        lines += [f".SS {roff('tessera ' + ' '.join(command.path))}", roff(command.summary + "."), ".PP", roff(command.usage)]
        for name, value, text in [*((n, "", t) for n, t in command.positionals), *command.options]:
            lines += [".TP", rf"\fB{roff(name)}\fR {roff(value)}".rstrip(), roff(text)]
        for example in command.examples[:1]:
            lines += [".PP", "Example:", ".PP", ".RS", roff(example), ".RE"]
    lines += [".SH EXIT STATUS", "0: success. 1: runtime error. 2: usage error."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    asked = parser.parse_args()
    version = subprocess.run([asked.program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    program = read_command(asked.program, (), "")
    known = read_known(asked.program)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, text in (("tessera.1", man_page(program, version)), ("tessera", bash(program, known)),
                       ("_tessera", zsh(program, known)), ("tessera.fish", fish(program, known))):
        (asked.out / name).write_text(text)


if __name__ == "__main__":
    main()
