#!/usr/bin/env python3
"""Compares chat templates with transformers: text, generated spans, and which conversations are rejected.

Templates: those of --templates, or those in TRL's wheel and axolotl's source archive, which pip downloads
to --cache. Conversations are random (seeded): system prompts, tools and tool calls, thoughts, empty and
Unicode texts, several answers in a row. Prints a line per template. Ends with 1 if any text differs.

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install transformers jinja2
    /tmp/peer/bin/python scripts/check_templates.py --count 200
"""
import argparse
import datetime
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from transformers.utils import chat_template_utils

DATE = datetime.datetime(2026, 1, 31, 12)
TEXTS = ["Hello", "", " ", "  two blanks  ", "line\nline\n", "What is 2 < 3 & 4 > 1?", "häuser, 東京, \U0001f600", "it's \"quoted\"",
         "<think>\nhm\n</think>\n\nanswer", "a\u3000b\u00a0", "{{ not a tag }} {% x %}", "tab\tand\\backslash", "x" * 300]
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city, in \u00b0C",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "The city"},
            "days": {"type": "integer", "description": "Days", "enum": [1, 2, 3]},
            "flags": {"type": "array", "items": {"type": "string"}}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def conversation(rng):
    """One conversation with the variables of its rendering."""
    messages, tools = [], None
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system"] * 4 + ["developer"]), "content": rng.choice(TEXTS)})
    if rng.random() < 0.4:
        tools = rng.sample(TOOLS, rng.randint(1, 2))
    for _ in range(rng.randint(0 if messages and rng.random() < 0.1 else 1, 4)):
        messages.append({"role": "user", "content": rng.choice(TEXTS)})
        if tools and rng.random() < 0.6:
            call = {"type": "function", "id": "call%05d" % rng.randint(0, 99999),
                    "function": {"name": "get_weather", "arguments": {"city": rng.choice(TEXTS), "days": rng.randint(1, 3), "x": [1.5, None, True]}}}
            message = {"role": "assistant", "content": rng.choice(["", "", None, "Let me see."]), "tool_calls": [call]}
            if rng.random() < 0.2:
                message["tool_calls"] = message["tool_calls"] * 2
            messages.append(message)
            messages.append({"role": "tool", "name": "get_weather", "tool_call_id": call["id"], "content": rng.choice(["21", '{"t": 21}', "häuser"])})
        answer = {"role": "assistant", "content": rng.choice(TEXTS)}
        if rng.random() < 0.2:
            answer[rng.choice(["reasoning_content", "thinking"])] = rng.choice(TEXTS)
        if rng.random() < 0.85:
            messages.append(answer)
    if rng.random() < 0.05:
        messages.append(dict(messages[-1]))
    line = {"messages": messages, "add_generation_prompt": rng.random() < 0.4, **TOKENS}
    if tools:
        line["tools"] = tools
    if rng.random() < 0.2:
        line["enable_thinking"] = rng.random() < 0.5
    return line


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 31, 12)


def reference(text, line):
    """transformers' text and the spans of generated texts in bytes; an Exception if it rejects the line."""
    values = {k: v for k, v in line.items() if k not in ("messages", "tools", "add_generation_prompt")}
    try:
        rendered, spans = chat_template_utils.render_jinja_template(
            [line["messages"]], tools=line.get("tools"), chat_template=text, return_assistant_tokens_mask=True,
            add_generation_prompt=line["add_generation_prompt"], **values)
    except Exception as error:  # templates and Jinja raise errors of many types
        return error, None
    rendered = rendered[0]
    at = lambda i: len(rendered[:i].encode())
    return rendered, [[at(a), at(b)] for a, b in spans[0]]


def archives(cache):
    """Downloads TRL and axolotl, and returns {name: text} of their templates."""
    os.makedirs(cache, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", cache]
    if not list(pathlib.Path(cache).glob("trl-*.whl")):
        subprocess.run([*pip, "trl"], check=True)
    if not list(pathlib.Path(cache).glob("axolotl-*.tar.gz")):
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "wheel", "setuptools", "packaging"], check=True)
        subprocess.run([*pip, "--no-binary", ":all:", "--no-build-isolation", "axolotl"], check=False)
    found = {}
    for wheel in pathlib.Path(cache).glob("trl-*.whl"):
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if name.endswith(".jinja"):
                    found["trl/" + os.path.basename(name)] = z.read(name).decode()
    for archive in pathlib.Path(cache).glob("axolotl-*.tar.gz"):
        with tarfile.open(archive) as t:
            for member in t.getmembers():
                if member.name.endswith(".jinja") and "/templates/" in member.name:
                    found["axolotl/" + os.path.basename(member.name)] = io.TextIOWrapper(t.extractfile(member), encoding="utf-8").read()
    return found


def check(program, name, text, lines):
    """Returns (same, both rejected, differences, first difference, unsupported)."""
    with tempfile.TemporaryDirectory() as folder:
        form, chat = os.path.join(folder, "t.jinja"), os.path.join(folder, "chat.jsonl")
        pathlib.Path(form).write_text(text, encoding="utf-8", newline="")
        pathlib.Path(chat).write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        done = subprocess.run([program, "data", "render", form, chat, "--json", "--date", DATE.strftime("%Y-%m-%d")], capture_output=True, text=True)
    if done.returncode != 0:
        return 0, 0, 0, "", done.stderr.strip().replace(folder + "/", "")
    same = rejected = different = 0
    first = ""
    for line, out in zip(lines, done.stdout.splitlines(), strict=True):
        ours, (theirs, spans) = json.loads(out), reference(text, line)
        if isinstance(theirs, Exception):
            if "error" in ours:
                rejected += 1
                continue
            theirs = f"{type(theirs).__name__}: {theirs}"
        elif ours.get("text") == theirs and ours["generated"] == spans:
            same += 1
            continue
        different += 1
        first = first or f"{json.dumps(line, ensure_ascii=False)}\n  expected {theirs!r} {spans}\n  got      {ours}"
    return same, rejected, different, first, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/tessera")
    parser.add_argument("--count", type=int, default=200, help="conversations per template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", nargs="*", help="template files instead of those of TRL and axolotl")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/tessera-templates/archives"))
    parser.add_argument("--only", default="", help="templates whose name contains this")
    args = parser.parse_args()
    chat_template_utils.datetime = FixedDate
    found = {t: pathlib.Path(t).read_text() for t in args.templates} if args.templates else archives(args.cache)
    bad = supported = 0
    for name in sorted(found):
        if args.only not in name:
            continue
        rng = random.Random(f"{args.seed} {name}")
        lines = [conversation(rng) for _ in range(args.count)]
        same, rejected, different, first, unsupported = check(args.program, name, found[name], lines)
        if unsupported:
            print(f"{name}: not supported: {unsupported}")
            continue
        supported += 1
        bad += different
        print(f"{name}: {same} equal, {rejected} rejected by both, {different} differ", flush=True)
        if first:
            print("  " + first)
    print(f"{supported} of {len(found)} templates supported, {bad} conversations differ")
    return 1 if bad or not supported else 0


if __name__ == "__main__":
    sys.exit(main())
