#!/usr/bin/env python3
"""Writes NaN into the weights of a running rank: what a broken memory chip does, only worse.

usage: write_nan.py PID
"""
import re
import struct
import sys

pid = sys.argv[1]
mappings = []
for line in open(f"/proc/{pid}/maps"):
    begin, end, rights, *rest = re.split(r"[-\s]+", line.strip())
    if rights.startswith("rw") and len(rest) <= 3:  # anonymous
        mappings.append((int(end, 16) - int(begin, 16), int(begin, 16)))
# The arena is the largest; a run's state lies at its beginning.
_, begin = max(mappings)
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
    memory.seek(begin + 65536)
    memory.write(struct.pack("<f", float("nan")) * 4096)
