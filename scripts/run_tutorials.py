#!/usr/bin/env python3
"""Runs the commands of a tutorial as they are written, and compares what they print.

In a page, a fenced block

    ```sh      is run, in one shell and one empty folder for the whole page
    ```text    directly after it is expected output: each of its lines must match a line of the output, in
               this order. `…` matches any text; numbers with a decimal point, an exponent or a comma, and
               integers of three digits and more, match any such number
    ```bash    is shown only: commands that need a cluster, a network or other programs

usage: scripts/run_tutorials.py --program build/tessera PAGE … [--keep FOLDER] [--show]
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = r"-?(?:\d+[.,][\d.,]*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d{3,})"
LIMIT_S = 540


class Block:
    """The commands of one fenced block, with its line and the output that is expected."""

    def __init__(self, line, commands):
        self.line, self.commands, self.expected = line, commands, []


def blocks_of(page):
    """Blocks of a page that are run."""
    found, fence, start, lines = [], None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None and (opening := re.match(r"^```(\w+)\s*$", line)):
            fence, start, lines = opening.group(1), number, []
        elif fence is not None and line.startswith("```"):
            if fence == "sh":
                found.append(Block(start, lines))
                previous_end = number
            elif fence == "text" and found and not page_text_between(page, previous_end, start):
                found[-1].expected = [(start + 1 + i, text) for i, text in enumerate(lines)]
            fence = None
        elif fence is not None:
            lines.append(line)
    if fence is not None:
        sys.exit(f"{page}:{start}: the block does not end")
    return found


def page_text_between(page, first, last):
    """Whether anything but empty lines is between two lines of a page."""
    return any(line.strip() for line in page.read_text(encoding="utf-8").splitlines()[first:last - 1])


def pattern_of(expected):
    """The pattern of a line of expected output: exact but for numbers and `…`."""
    parts = []
    for piece in re.split(rf"(…|{NUMBER})", expected.strip()):
        if piece == "…":
            parts.append(".*")
        elif re.fullmatch(NUMBER, piece):
            parts.append(NUMBER)
        else:
            # The number of blanks depends on the width of numbers.
            parts.append(r"\s+".join(re.escape(word) for word in re.split(r"\s+", piece)))
    return re.compile("".join(parts))


def mismatch(block, output):
    """The first expected line that no further line of the output matches, or None."""
    lines, at = [line.rstrip() for line in output.splitlines()], 0
    for number, expected in block.expected:
        if expected.strip() in ("", "…"):
            continue
        pattern = pattern_of(expected)
        while at < len(lines) and not pattern.fullmatch(lines[at].strip()):
            at += 1
        if at == len(lines):
            return number, expected
        at += 1
    return None


def script_of(blocks):
    """One script for all blocks; a line between them marks where the output of the next begins."""
    parts = ["set -eu -o pipefail"]
    for index, block in enumerate(blocks):
        parts.append(f"printf '\\n@@block {index}\\n'")
        parts += block.commands
    parts.append(f"printf '\\n@@block {len(blocks)}\\n'")
    return "\n".join(parts) + "\n"


def environment(program):
    env = dict(os.environ, LC_ALL="C.UTF-8", TESSERA=str(ROOT), PATH=f"{program.parent}:{os.environ['PATH']}",
               OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1")
    env.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    return env


def run_script(script, program, folder):
    """(output, exit status) of a script. Processes that it leaves running are ended."""
    with tempfile.TemporaryFile() as log:
        shell = subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment(program), stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = shell.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            status = f"none after {LIMIT_S} s"
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()
        log.seek(0)
        return log.read().decode(errors="replace"), status


def run_page(page, program, folder, show=False):
    """Runs a page in a folder. Returns a text for each failure."""
    blocks = blocks_of(page)
    if not blocks:
        return [f"{page}: no block with commands to run"]
    output, status = run_script(script_of(blocks), program, folder)
    outputs = re.split(r"\n?@@block \d+\n", output)[1:]
    errors = []
    if status == 0 and len(outputs) != len(blocks) + 1:
        status = "0 before the last block: an `exit`, or a here-document that does not end"
    for index, block in enumerate(blocks[:len(outputs)]):
        if show:
            print(f"== {page}:{block.line}", *block.commands, "--", outputs[index], sep="\n")
        if status != 0 and index == len(outputs) - 1:
            errors.append(f"{page}:{block.line}: the commands failed (exit status {status}):\n{outputs[index]}")
        elif wrong := mismatch(block, outputs[index]):
            errors.append(f"{page}:{wrong[0]}: expected\n    {wrong[1]}\nbut the commands of line {block.line} "
                          f"printed\n{outputs[index]}")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the program to test")
    parser.add_argument("--keep", type=pathlib.Path, help="run in this folder and keep it")
    parser.add_argument("--show", action="store_true", help="print the output of every block")
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    program, failed = options.program.resolve(), 0
    if not program.is_file():
        sys.exit(f"run_tutorials.py: {program}: no such file")
    for page in options.pages:
        start = time.monotonic()
        folder = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="tutorial-"))
        folder.mkdir(parents=True, exist_ok=True)
        errors = run_page(page, program, folder, options.show)
        for error in errors:
            print(error)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{page}: {'failed' if errors else 'ok'}, {len(blocks_of(page))} blocks, "
              f"{time.monotonic() - start:.0f} s", flush=True)
        failed += bool(errors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
