#!/usr/bin/env python3
"""Trains a small convolutional network on MNIST or Fashion-MNIST.

    train [--data DIR] [--epochs N] [--steps N] [--batch N]

DIR has the four files of MNIST, gzip-compressed. A GPU is used where there is one.
"""
import argparse
import gzip
import os
import time

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
    net.eval()
    with torch.no_grad():
        right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(x.split(1000), y.split(1000)))
    return right / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/data", help="directory of the data set (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop each epoch after so many")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (t.to(device) for t in load(args.data, "train"))
    test = [t.to(device) for t in load(args.data, "t10k")]
    net = network().to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        start = time.monotonic()
        net.train()
        batches = torch.randperm(len(x), device=device).split(args.batch)[:args.steps]
        for batch in batches:
            optimiser.zero_grad()
            loss = loss_of(net(x[batch]), y[batch])
            loss.backward()
            optimiser.step()
        seconds = time.monotonic() - start
        print(f"epoch {epoch + 1} on {device}: loss {loss.item():.3f}, {len(batches) * args.batch / seconds:.0f} images/s, "
              f"test accuracy {evaluate(net, *test):.2%}", flush=True)


if __name__ == "__main__":
    main()
