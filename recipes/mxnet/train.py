#!/usr/bin/env python3
"""Trains a small convolutional network on MNIST or Fashion-MNIST with Gluon.

    train [--data DIR] [--epochs N] [--steps N] [--batch N]

DIR has the four files of MNIST, gzip-compressed.
"""
import argparse
import gzip
import os
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon import nn


def idx(path):
    """An array in MNIST's format: two zero bytes, type, number of dimensions, dimensions, elements."""
    raw = gzip.open(path).read()
    shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def load(directory, part):
    x = idx(os.path.join(directory, part + "-images-idx3-ubyte.gz"))
    y = idx(os.path.join(directory, part + "-labels-idx1-ubyte.gz"))
    return mx.nd.array(x[:, None].astype(np.float32) / 255), mx.nd.array(y.astype(np.float32))


def network():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 5, padding=2, activation="relu"), nn.MaxPool2D(2), nn.Conv2D(64, 5, padding=2, activation="relu"),
            nn.MaxPool2D(2), nn.Dense(512, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def evaluate(net, x, y):
    right = sum((net(x[i:i + 1000]).argmax(1) == y[i:i + 1000]).sum().asscalar() for i in range(0, len(x), 1000))
    return right / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/data", help="directory of the data set (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop each epoch after so many")
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    mx.random.seed(1)
    rng = np.random.default_rng(1)
    x, y = load(args.data, "train")
    test = load(args.data, "t10k")
    net = network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for epoch in range(args.epochs):
        start = time.monotonic()
        order = rng.permutation(len(x))[:args.steps * args.batch if args.steps else None]
        for i in range(0, len(order), args.batch):
            batch = mx.nd.array(order[i:i + args.batch], dtype="int64")
            with autograd.record():
                loss = loss_of(net(x.take(batch)), y.take(batch))
            loss.backward()
            trainer.step(len(batch))
        last = loss.mean().asscalar()
        seconds = time.monotonic() - start
        print(f"epoch {epoch + 1}: loss {last:.3f}, {len(order) / seconds:.0f} images/s, "
              f"test accuracy {evaluate(net, *test):.2%}", flush=True)


if __name__ == "__main__":
    main()
