#!/usr/bin/env python3
"""Trains as train.py does, on ranks of torchrun's that come and go: a step has the same images, however many ranks
share them, and begins again from the last checkpoint when their number changes.

    torchrun --nnodes=1:4 ... elastic.py [--data DIR] [--checkpoint FILE] [--steps N] [--batch N] [--every N]
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from train import load, network


def save(path, state):
    """Whole or not at all."""
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/data", help="directory of the data set (%(default)s)")
    parser.add_argument("--checkpoint", default="elastic.pt", help="a file that all nodes see (%(default)s)")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=256, help="of all ranks (%(default)s)")
    parser.add_argument("--every", type=int, default=20, help="steps from one checkpoint to the next (%(default)s)")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    x, y = load(args.data, "train")
    net = network()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss(reduction="sum")
    step = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        step = state["step"]
        net.load_state_dict(state["net"])
        optimiser.load_state_dict(state["optimiser"])
    if rank == 0:
        print(f"{ranks} ranks from step {step}", flush=True)
    while step < args.steps:
        images = torch.randint(len(x), (args.batch,), generator=torch.Generator().manual_seed(step))[rank::ranks]
        optimiser.zero_grad()
        loss = loss_of(net(x[images]), y[images]) / args.batch
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        optimiser.step()
        step += 1
        if step % args.every == 0 or step == args.steps:
            dist.all_reduce(loss)
            if rank == 0:
                save(args.checkpoint, {"step": step, "net": net.state_dict(), "optimiser": optimiser.state_dict()})
                print(f"step {step} on {ranks} ranks: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
