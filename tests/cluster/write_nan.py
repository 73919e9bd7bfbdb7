#!/usr/bin/env python3
"""Writes NaN into the weights of a running rank: what a broken memory chip does, only worse.

usage: write_nan.py PID
"""
import struct
import sys

pid = sys.argv[1]
mappings = []
for line in open(f"/proc/{pid}/maps"):
    where, rights, *rest = line.split()
    begin, end = (int(x, 16) for x in where.split("-"))
    if rights.startswith("rw") and len(rest) == 3:  # anonymous: no name after the inode
        mappings.append((end - begin, begin))
# The arena is the largest; a run's state lies at its beginning.
_, begin = max(mappings)
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
    memory.seek(begin + 65536)
    memory.write(struct.pack("<f", float("nan")) * 4096)
