#!/usr/bin/env python3
"""A log as `mltrain train --log` writes it, of a run that never was, from numbers alone.

    made_log.py [--steps N] [--every N] [--classes N] [--gpu] [--speed IMAGES/S] [--seed N]
                [--evil] [--cut] > run.jsonl

--evil puts markup and scripts wherever a log has text; --cut ends it in the middle of a record.
"""
import argparse
import base64
import json
import math
import random
import struct
import sys
import zlib

EVIL = '</script><script>document.title="stolen"</script><img src=x onerror="document.title=1">&"\'\x1b'
FASHION = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


def png(side, rng):
    """A grey picture of a soft blob."""
    x0, y0, r = rng.uniform(9, 19), rng.uniform(9, 19), rng.uniform(5, 10)
    rows = b"".join(b"\0" + bytes(int(255 * math.exp(-((x - x0) ** 2 + (y - y0) ** 2) / r ** 2))
                                  for x in range(side)) for y in range(side))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")).decode()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=4000)
    p.add_argument("--every", type=int, default=10)
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--gpu", action="store_true")
    p.add_argument("--speed", type=float, default=6400)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--evil", action="store_true")
    p.add_argument("--cut", action="store_true")
    o = p.parse_args()
    rng = random.Random(o.seed)
    text = (lambda s: s + EVIL) if o.evil else (lambda s: s)
    out = []
    batch, per_epoch, load_s = 64, 859, 0.31
    names = FASHION if o.classes == 10 else ["class %d" % i for i in range(o.classes)]

    def put(event, **record):
        out.append(json.dumps(dict(record, event=event), separators=(",", ":")))

    put("run", time="2026-11-20T19:52:19Z", version="0.1.0", host=text("node7"),
        backend="cuda" if o.gpu else "onednn", device="NVIDIA H200" if o.gpu else None,
        dtype="bf16" if o.gpu else "f32", threads=0 if o.gpu else 2, memory_bytes=61708480,
        net=text("convolutional"), input="1x28x28", parameters=1663370,
        data="/usr/share/datasets/" + text("fashion-mnist").replace("/", "∕"), train_images=55000,
        validation_images=5000, test_images=10000, seed=o.seed,
        epochs=math.ceil(o.steps / per_epoch), batch=batch, steps=o.steps,
        steps_per_epoch=per_epoch, lr=0.01, lr_decay=0.95, momentum=0.9, l2=5e-4, dropout=0.5,
        checkpoint=None, step=0, seconds=load_s)
    train = evaluate = checkpoint = 0.0
    state = {}
    load_at = min(2.0, o.steps * batch / o.speed / 15)
    for step in range(1, o.steps + 1):
        train += batch / o.speed * rng.lognormvariate(0, 0.25)
        now = load_s + train + evaluate + checkpoint
        if step == 1 or step % o.every == 0 or step == o.steps:
            epoch = (step - 1) // per_epoch
            error = 0.075 + 0.75 * (1 + step / 25) ** -0.75
            ce = 2.7 * error
            state = dict(step=step, epoch=epoch + 1, epochs_done=step // per_epoch,
                         lr=0.01 * 0.95 ** epoch,
                         loss=max(0.02, ce + 3.1 * 0.9997 ** step + rng.gauss(0, 0.12)),
                         cross_entropy=ce, batch_error=min(1, max(0, rng.gauss(error, 0.035))),
                         validation_error=state.get("validation_error"), test_error=None,
                         train_seconds=train, evaluate_seconds=evaluate,
                         checkpoint_seconds=checkpoint, images_per_second=step * batch / train)
            put("step", seconds=now, **state)
        if step % per_epoch == 0:
            evaluate += 5000 / o.speed / 3
            checkpoint += 0.02
            state["validation_error"] = 0.08 + 0.06 * math.exp(-step / 2500) + rng.gauss(0, 0.002)
            put("epoch", seconds=now, **state)
        if now > load_at:
            load_at += 2 if o.steps * batch / o.speed > 20 else o.steps * batch / o.speed / 15
            gpus = [dict(index=0, name=text("NVIDIA H200"), percent=rng.uniform(82, 98),
                         memory_bytes=3.2e9, memory_total_bytes=1.5e11,
                         power_watts=rng.uniform(380, 460), temperature_celsius=51)] if o.gpu else []
            put("load", step=step, seconds=now, gpus=gpus, rss_bytes=int(1.1e8 + 1e6 * rng.random()),
                cpu_process_percent=rng.uniform(90, 104) if o.gpu else rng.uniform(185, 199),
                cpu_node_percent=rng.uniform(50, 60) if o.gpu else rng.uniform(93, 100))
    confusion = [[0] * o.classes for _ in names]
    for i in range(o.classes):
        for _ in range(1000):
            wrong = rng.random() < 0.02 + 0.14 * ((i * 7) % o.classes) / o.classes
            guess = (i + rng.choice([2, 4, 4, 6, 1])) % o.classes if wrong else i
            confusion[i][guess] += 1
    mistakes = []
    for i in range(24):
        label = rng.randrange(o.classes)
        mistakes.append(dict(index=rng.randrange(10000), label=label, guess=(label + 4) % o.classes,
                             probability=1 - 0.002 * i, png=png(28, rng)))
    put("test", names=[text(n) for n in names], confusion=confusion, mistakes=mistakes)
    wrong = sum(sum(row) for row in confusion) - sum(confusion[i][i] for i in range(o.classes))
    state.update(test_error=wrong / (1000 * o.classes), test_wrong=wrong, evaluate_seconds=evaluate + 0.4)
    put("end", seconds=load_s + train + evaluate + checkpoint + 0.45, **state)
    whole = "\n".join(out) + "\n"
    sys.stdout.write(whole[:-200] if o.cut else whole)


main()
