#!/usr/bin/env python3
"""Trains a small convolutional network on MNIST or Fashion-MNIST, with Horovod on several ranks.

    horovodrun -np RANKS train [--data DIR] [--epochs N] [--steps N] [--batch N]

DIR has the four files of MNIST, gzip-compressed. Each rank takes its shard of the images; --batch is the number of
images in a step of one rank, and the learning rate grows with the number of ranks.
"""
import argparse
import gzip
import os
import time

import horovod.torch as hvd
import numpy as np
import torch
from torch import nn


def idx(path):
    """An array in MNIST's format: two zero bytes, type, number of dimensions, dimensions, elements."""
    raw = gzip.open(path).read()
    shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def load(directory, part):
    x = idx(os.path.join(directory, part + "-images-idx3-ubyte.gz"))
    y = idx(os.path.join(directory, part + "-labels-idx1-ubyte.gz"))
    return torch.from_numpy(x.copy()).float().unsqueeze(1) / 255, torch.from_numpy(y.astype(np.int64))


def network():
    return nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 10))


def evaluate(net, x, y):
    """How many are right, and how many there are, on all ranks' shards together."""
    net.eval()
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(x.split(1000), y.split(1000)))
    return hvd.allreduce(torch.tensor([right, len(y)]), op=hvd.Sum).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/data", help="directory of the data set (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop each epoch after so many")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    hvd.init()
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // hvd.local_size()))
    x, y = (t[hvd.rank()::hvd.size()] for t in load(args.data, "train"))
    test = [t[hvd.rank()::hvd.size()] for t in load(args.data, "t10k")]
    torch.manual_seed(1 + hvd.rank())
    net = network()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01 * hvd.size(), momentum=0.9)
    optimiser = hvd.DistributedOptimizer(optimiser, named_parameters=net.named_parameters())
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimiser, root_rank=0)
    loss_of = nn.CrossEntropyLoss()
    steps = min(len(x) // args.batch, args.steps or len(x))  # the same on all ranks
    for epoch in range(args.epochs):
        start = time.monotonic()
        net.train()
        for batch in torch.randperm(len(x)).split(args.batch)[:steps]:
            optimiser.zero_grad()
            loss = loss_of(net(x[batch]), y[batch])
            loss.backward()
            optimiser.step()
        seconds = time.monotonic() - start
        right, images = evaluate(net, *test)
        mean = hvd.allreduce(loss.detach()).item()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1} on {hvd.size()} ranks: loss {mean:.3f}, "
                  f"{steps * args.batch * hvd.size() / seconds:.0f} images/s, test accuracy {right / images:.2%}", flush=True)


if __name__ == "__main__":
    main()
