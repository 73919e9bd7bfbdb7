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


def all_commands(command):
    yield command
    for child in command.children:
        yield from all_commands(child)


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


# ---- Completions: sub-commands, options and files. Everything else completes to a file name.

def option_names(command):
    return [name for name, _, _ in command.options]


def bash(program):
    cases = []
    for command in all_commands(program):
        names = [child.path[-1] for child in command.children] + option_names(command)
        cases.append(f"    '{' '.join(command.path)}') choices='{' '.join(names)}' ;;")
    groups = "|".join(" ".join(c.path) for c in program.children if c.children)
    return f"""# bash completion for tessera
_tessera() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} path= choices=
  [ "$COMP_CWORD" -gt 1 ] && path=${{COMP_WORDS[1]}}
  case "$path" in
    {groups}) [ "$COMP_CWORD" -gt 2 ] && path="$path ${{COMP_WORDS[2]}}" ;;
  esac
  case "$path" in
{chr(10).join(cases)}
  esac
  COMPREPLY=($(compgen -W "$choices" -- "$word"))
  [ -n "$path" ] && [ "${{word#-}}" = "$word" ] && COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _tessera tessera
"""


def zsh_text(text):
    return re.sub(r"([\\':\[\]])", lambda m: {"'": "'\\''"}.get(m.group(), "\\" + m.group()), text)


def zsh(program):
    def function(path):
        return "_".join(["_tessera", *path]).replace("-", "_")

    out = ["#compdef tessera"]
    for command in all_commands(program):
        out.append(f"{function(command.path)}() {{")
        if command.children:
            out.append("  local -a commands=(")
            out += [f"    '{c.path[-1]}:{zsh_text(c.summary)}'" for c in command.children]
            out += ["  )", "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
                    "  shift words; (( CURRENT-- ))", "  case ${words[1]} in"]
            out += [f"    {c.path[-1]}) {function(c.path)} ;;" for c in command.children]
            out += ["  esac"]
        else:
            specs = [f"'{name}[{zsh_text(text)}]{':' + zsh_text(value.lower()) + ':_files' if value else ''}'"
                     for name, value, text in command.options]
            out.append("  _arguments " + " ".join([*specs, "'*:file:_files'"]))
        out.append("}")
    return "\n".join([*out, '_tessera "$@"', ""])


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(program):
    out = ["# fish completion for tessera"]
    for command in all_commands(program):
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.path) or "__fish_use_subcommand"
        if command.children:
            names = " ".join(c.path[-1] for c in command.children)
            here = f"{seen}; and not __fish_seen_subcommand_from {names}" if command.path else seen
            out += [f"complete -c tessera -f -n '{here}' -a {c.path[-1]} -d {fish_text(c.summary)}" for c in command.children]
        out += [f"complete -c tessera -n '{seen}' -l {name[2:]} {'-r ' if value else ''}-d {fish_text(text)}"
                for name, value, text in command.options if name.startswith("--")]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    asked = parser.parse_args()
    version = subprocess.run([asked.program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    program = read_command(asked.program, (), "")
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, text in (("tessera.1", man_page(program, version)), ("tessera", bash(program)),
                       ("_tessera", zsh(program)), ("tessera.fish", fish(program))):
        (asked.out / name).write_text(text)


if __name__ == "__main__":
    main()
