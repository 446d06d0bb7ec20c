#!/usr/bin/env python3
"""Fine-tunes DistilBERT to tell sentences that praise from those that don't: the task SST-2 of GLUE.

    train --data DIR [--model NAME|DIR] [--epochs N] [--steps N] [--batch N] [--output DIR]

The data are train.tsv and dev.tsv of GLUE's SST-2.zip: a header, then a sentence, a tab and 0 or 1. The model is one of
the Hugging Face Hub or a directory. Batches are padded to their longest sentence. A GPU is used where there is one.
"""
import argparse
import csv
import os
import time

import torch
from transformers import AutoTokenizer, DistilBertForSequenceClassification, get_linear_schedule_with_warmup


def load(directory, part):
    with open(os.path.join(directory, part + ".tsv"), encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row["sentence"].strip(), int(row["label"])) for row in rows]


class Batches:
    """Batches on a device, in a new order each time."""

    def __init__(self, rows, tokenizer, size, device, shuffle):
        self.rows, self.tokenizer, self.size, self.device, self.shuffle = rows, tokenizer, size, device, shuffle

    def __len__(self):
        return -(-len(self.rows) // self.size)

    def __iter__(self):
        order = torch.randperm(len(self.rows)) if self.shuffle else torch.arange(len(self.rows))
        for chosen in order.split(self.size):
            texts, labels = zip(*(self.rows[i] for i in chosen))
            batch = self.tokenizer(list(texts), padding=True, truncation=True, max_length=128, return_tensors="pt")
            yield batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device), \
                torch.tensor(labels, device=self.device)


def evaluate(model, batches):
    model.eval()
    right = 0
    with torch.no_grad():
        for ids, mask, labels in batches:
            right += (model(ids, attention_mask=mask).logits.argmax(1) == labels).sum().item()
    return right / len(batches.rows)


def optimiser_of(model, args):
    """AdamW; biases and normalisations do not decay."""
    decayed = [p for n, p in model.named_parameters() if p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": args.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=args.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="directory with train.tsv and dev.tsv")
    parser.add_argument("--model", default="distilbert-base-uncased", help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, help="stop each epoch after so many")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=2e-5)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--output", help="save the trained model here")
    args = parser.parse_args()

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = DistilBertForSequenceClassification.from_pretrained(args.model, num_labels=2).to(device)
    model.config.id2label, model.config.label2id = {0: "NEGATIVE", 1: "POSITIVE"}, {"NEGATIVE": 0, "POSITIVE": 1}
    train = Batches(load(args.data, "train"), tokenizer, args.batch, device, shuffle=True)
    dev = Batches(load(args.data, "dev"), tokenizer, args.batch, device, shuffle=False)
    steps = min(args.steps or len(train), len(train))
    optimiser = optimiser_of(model, args)
    schedule = get_linear_schedule_with_warmup(optimiser, 0, steps * args.epochs)
    for epoch in range(args.epochs):
        start, sentences = time.monotonic(), 0
        model.train()
        for _, (ids, mask, labels) in zip(range(steps), train):
            optimiser.zero_grad()
            loss = model(ids, attention_mask=mask, labels=labels).loss
            loss.backward()
            optimiser.step()
            schedule.step()
            sentences += len(labels)
        seconds = time.monotonic() - start
        print(f"epoch {epoch + 1} on {device}: loss {loss.item():.3f}, {sentences / seconds:.0f} sentences/s, "
              f"dev accuracy {evaluate(model, dev):.2%}", flush=True)
    if args.output:
        model.save_pretrained(args.output)
        tokenizer.save_pretrained(args.output)


if __name__ == "__main__":
    main()
