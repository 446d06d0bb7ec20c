"""Learns ten classes of images by softmax regression, in nothing but Python: what a job script fetches and runs.

Reads data/train-images-idx3-ubyte.gz and its three siblings, of MNIST's format, and prints as TensorFlow's tutorial does.
"""

import gzip
import math
import os
import random

NUM_EPOCHS = 10
TRAIN, TEST, RATE = 1000, 500, 0.05


def load(part, count):
    with gzip.open(f"data/{part}-images-idx3-ubyte.gz") as f:
        raw = f.read(16 + 784 * count)[16:]
    with gzip.open(f"data/{part}-labels-idx1-ubyte.gz") as f:
        labels = f.read(8 + count)[8:]
    # Every second row and column: a quarter of the pixels tells the classes apart.
    pixels = [28 * y + x for y in range(0, 28, 2) for x in range(0, 28, 2)]
    return [[raw[784 * i + p] / 255 for p in pixels] + [1.0] for i in range(count)], labels


def scores(weights, image):
    logits = [sum(map(lambda w, x: w * x, row, image)) for row in weights]
    top = max(logits)
    exps = [math.exp(v - top) for v in logits]
    return [v / sum(exps) for v in exps]


def main():
    random.seed(1)
    images, labels = load("train", TRAIN)
    weights = [[0.0] * len(images[0]) for _ in range(10)]
    print("Initialized!")
    for epoch in range(NUM_EPOCHS):
        order = list(range(TRAIN))
        random.shuffle(order)
        for i in order:
            for c, p in enumerate(scores(weights, images[i])):
                step = RATE * ((c == labels[i]) - p)
                weights[c] = [w + step * x for w, x in zip(weights[c], images[i])]
        print(f"Epoch {epoch + 1} of {NUM_EPOCHS}")
    images, labels = load("t10k", TEST)
    wrong = 0
    for image, label in zip(images, labels):
        p = scores(weights, image)
        wrong += p.index(max(p)) != label
    print(f"GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES', 'none')}")
    print(f"Test error: {100 * wrong / TEST:.1f}%")


main()
