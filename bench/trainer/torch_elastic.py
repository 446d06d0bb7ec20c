#!/usr/bin/python3
"""A program for torchrun whose number of processes changes: the reference network by DistributedDataParallel over gloo,
with a snapshot every few steps, from which torchrun's restarts go on (PyTorch's tutorial "Fault-tolerant Distributed
Training with torchrun" does it so). Rank 0 appends a line per step to LOG: the time, the step, the number of ranks.

  torch_elastic.py DIR LOG SNAPSHOT BATCH
"""
import os
import sys
import time

import torch
import torch.distributed
import torch.nn.functional as F

from torch_reference import Net, load

EVERY = 10  # steps between two snapshots


def main(directory, log, snapshot, batch):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x, y = load(directory, "train")
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    step = 0
    if os.path.exists(snapshot):
        kept = torch.load(snapshot)
        net.load_state_dict(kept["net"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
    net = torch.nn.parallel.DistributedDataParallel(net)
    rows = batch // ranks
    while True:
        at = (step * batch + rank * rows) % (len(x) - batch)
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[at:at + rows]), y[at:at + rows]).backward()
        optimizer.step()
        step += 1
        if rank:
            continue
        with open(log, "a") as f:
            f.write(f"{time.time():.3f} {step} {ranks}\n")
        if step % EVERY == 0:
            torch.save({"net": net.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, snapshot + ".new")
            os.rename(snapshot + ".new", snapshot)


main(*sys.argv[1:4], int(sys.argv[4]))
