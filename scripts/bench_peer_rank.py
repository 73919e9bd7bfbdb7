#!/usr/bin/env python3
"""One rank of PyTorch's data-parallel training over gloo: what bench_peers.py --ranks measures.

Started by torchrun; ddp keeps all state on each rank, fsdp2 divides it (fully_shard of every layer).
Rank 0 prints what bench_peer_step.py does, with the tokens/s of all ranks.
"""
import json

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bench_peer_step import arguments, batches, finish_step, make_model, timed, whole_loss


def divided(model, kind):
    if kind == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.base_model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    parser = arguments()
    parser.add_argument("--kind", choices=("ddp", "fsdp2"), required=True)
    o = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    batch = batches(o)
    model = divided(make_model(o), o.kind)
    # The one kernel for all parameters does not support sharded ones on a CPU.
    update = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1,
                               fused=o.kind == "ddp")
    took = timed(lambda number: finish_step(
        model, update, whole_loss(model, *batch(number * ranks + rank))), o.steps)
    if rank == 0:
        print(json.dumps({"tokens_per_s": ranks * o.batch * o.tokens / took["step_s"], **took}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
