#!/usr/bin/env python3
"""Trains the network of TensorFlow 1's tutorial convolutional.py, written for TensorFlow 1's graphs and sessions.

    convolutional [--data DIR] [--epochs N] [--steps N]

TensorFlow 2 runs it by tensorflow.compat.v1. Two convolutions of 5x5 with pooling, two full layers, dropout, momentum
0.9 with a rate of 0.01 that decays by 0.95 an epoch, L2 of the full layers 5e-4, batches of 64. DIR has the four files
of MNIST or Fashion-MNIST, gzip-compressed.
"""
import argparse
import gzip
import os
import time

import numpy as np
import tensorflow.compat.v1 as tf

BATCH = 64


def idx(path):
    """An array in MNIST's format: two zero bytes, type, number of dimensions, dimensions, elements."""
    raw = gzip.open(path).read()
    shape = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def load(directory, part):
    x = idx(os.path.join(directory, part + "-images-idx3-ubyte.gz"))
    return (x[..., None].astype(np.float32) - 127.5) / 255, idx(os.path.join(directory, part + "-labels-idx1-ubyte.gz"))


def variable(*shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1, seed=1))


class Network:
    def __init__(self, images_an_epoch):
        self.x = tf.placeholder(tf.float32, (None, 28, 28, 1))
        self.y = tf.placeholder(tf.int64, (None,))
        self.keep = tf.placeholder_with_default(1.0, ())
        layer = self.convolution(self.x, 1, 32)
        layer = self.convolution(layer, 32, 64)
        full = [variable(7 * 7 * 64, 512), variable(512), variable(512, 10), variable(10)]
        layer = tf.nn.relu(tf.reshape(layer, (-1, 7 * 7 * 64)) @ full[0] + full[1])
        logits = tf.nn.dropout(layer, rate=1 - self.keep, seed=1) @ full[2] + full[3]
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.y, logits=logits))
        decay = 5e-4 * sum(tf.nn.l2_loss(v) for v in full)
        self.right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), self.y), tf.int64))
        step = tf.Variable(0, trainable=False)
        rate = tf.train.exponential_decay(0.01, step * BATCH, images_an_epoch, 0.95, staircase=True)
        self.train = tf.train.MomentumOptimizer(rate, 0.9).minimize(self.loss + decay, global_step=step)

    @staticmethod
    def convolution(x, channels, kernels):
        x = tf.nn.conv2d(x, variable(5, 5, channels, kernels), strides=1, padding="SAME")
        return tf.nn.max_pool2d(tf.nn.relu(x + variable(kernels)), 2, 2, "SAME")


def evaluate(session, net, x, y):
    right = sum(session.run(net.right, {net.x: x[i:i + 1000], net.y: y[i:i + 1000]}) for i in range(0, len(x), 1000))
    return right / len(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="/data", help="directory of the data set (%(default)s)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop each epoch after so many")
    args = parser.parse_args()

    tf.disable_eager_execution()
    x, y = load(args.data, "train")
    test = load(args.data, "t10k")
    rng = np.random.default_rng(1)
    net = Network(len(x))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(args.epochs):
            start = time.monotonic()
            order = rng.permutation(len(x))[:args.steps * BATCH if args.steps else None]
            for i in range(0, len(order), BATCH):
                batch = order[i:i + BATCH]
                _, loss = session.run([net.train, net.loss], {net.x: x[batch], net.y: y[batch], net.keep: 0.5})
            seconds = time.monotonic() - start
            print(f"epoch {epoch + 1}: loss {loss:.3f}, {len(order) / seconds:.0f} images/s, "
                  f"test accuracy {evaluate(session, net, *test):.2%}", flush=True)


if __name__ == "__main__":
    main()
