#!/usr/bin/env python3
"""Runs the stories of examples/ in one folder. Each ends with an error if its model does not do what it shows.

usage: stories_test.py PROGRAM EXAMPLES
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time


def main():
    program, examples = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    listed = re.findall(r"\]\(stories/(\w+\.sh)\)", (examples / "README.md").read_text())
    found = sorted(path.name for path in (examples / "stories").glob("*.sh") if path.name != "common.sh")
    if sorted(listed) != found:
        sys.exit(f"examples/README.md lists {sorted(listed)}, the folder has {found}")
    env = dict(os.environ, TESSERA=str(program), OMP_WAIT_POLICY="passive")
    with tempfile.TemporaryDirectory(prefix="stories-") as folder:
        for story in listed:
            began = time.monotonic()
            done = subprocess.run([examples / "stories" / story], cwd=folder, env=env, text=True, timeout=500,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                sys.exit(f"{story}: exit status {done.returncode}\n{done.stdout}")
            print(f"{story}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
