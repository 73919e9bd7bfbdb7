#!/usr/bin/env python3
"""Writes NaN into weights of a running rank: what a broken memory chip does, only worse.

usage: write_nan.py PID
"""
import array
import math
import sys

PIECE = 65536


def looks_like_weights(data):
    """Fresh weights are small and none is zero; counters, tokens, code and moments are not so."""
    values = array.array("f", data)
    fit = sum(1 for x in values[::7] if math.isfinite(x) and 1e-6 < abs(x) < 0.5)
    return fit > 0.95 * len(values[::7])


def main():
    pid = sys.argv[1]
    written = 0
    nan = array.array("f", [math.nan] * (PIECE // 4)).tobytes()
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in open(f"/proc/{pid}/maps"):
            where, rights, *rest = line.split()
            begin, end = (int(x, 16) for x in where.split("-"))
            if not rights.startswith("rw") or len(rest) > 3 or end - begin < 2 * PIECE:
                continue  # a name after the inode: no anonymous memory
            for at in range(begin, end - PIECE + 1, PIECE):
                memory.seek(at)
                if looks_like_weights(memory.read(PIECE)):
                    memory.seek(at)
                    memory.write(nan)
                    written += 1
    print(f"NaN in {written} pieces of {PIECE >> 10} KiB", file=sys.stderr)
    return 0 if written else 1


sys.exit(main())
