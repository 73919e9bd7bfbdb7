#!/usr/bin/env python3
"""One rank of PyTorch's data-parallel training over gloo: what bench_peers.py --ranks measures.

Started by torchrun; ddp keeps all state on each rank, fsdp2 divides it (fully_shard of every layer).
Rank 0 prints one JSON object: tokens_per_s of all ranks (median of the timed steps), step_s, and
first_step_at (clock time at the end of the first step).
"""
import argparse
import json
import statistics
import time

import numpy
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bench_peer_step import make_model, whole_loss


def divided(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.gpt_neox.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    parser = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "vocabulary", "batch", "tokens", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--kind", choices=("ddp", "fsdp2"), required=True)
    parser.add_argument("--bin", required=True, help="16-bit token ids")
    o = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ids = numpy.memmap(o.bin, dtype=numpy.uint16, mode="r")
    model = divided(make_model(o), o.kind)
    # The one kernel for all parameters knows no divided ones on a CPU.
    update = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                               fused=o.kind == "ddp")

    def step(number):
        size = o.batch * (o.tokens + 1)
        start = (number * ranks + rank) * size % (len(ids) - size)
        part = torch.from_numpy(ids[start:start + size].astype(numpy.int64))
        part = part.view(o.batch, o.tokens + 1)
        loss = whole_loss(model, part[:, :-1], part[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()
        update.zero_grad(set_to_none=True)
        return loss.item()

    step(0)
    first_step_at = time.time()
    times = []
    for number in range(1, o.steps + 1):
        before = time.perf_counter()
        step(number)
        times.append(time.perf_counter() - before)
    step_s = statistics.median(times[1:] if len(times) > 2 else times)
    if rank == 0:
        print(json.dumps({"tokens_per_s": ranks * o.batch * o.tokens / step_s, "step_s": step_s,
                          "first_step_at": first_step_at}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
