#!/usr/bin/env python3
"""Answers over HTTP which sentences praise, with the model that train --output has saved.

    serve --model DIR [--host ADDRESS] [--port N] [--threads N] [--cache redis://HOST:PORT/DB] [--ttl SECONDS]

    POST /predict {"text": ["A film to remember."]}
        {"predictions": [[{"label": "POSITIVE", "score": 0.998}, {"label": "NEGATIVE", "score": 0.002}]]}
    GET /health
        {"status": "healthy"}

Answers are kept in redis for a while, under mlapi-cache and the digest of model and sentences; the header X-MLAPI-Cache
says Hit or Miss. Without redis each answer is computed. $REDISCLI_AUTH is its password.
"""
import argparse
import asyncio
import concurrent.futures
import hashlib
import json
import os

import fastapi
import pydantic
import redis.asyncio
import torch
import uvicorn
from transformers import AutoTokenizer, DistilBertForSequenceClassification

SENTENCES_MAX, CHARACTERS_MAX = 64, 2000
REDIS_SECONDS = 0.25  # to connect, and to answer


class Question(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    text: list[pydantic.constr(max_length=CHARACTERS_MAX)] = pydantic.Field(min_length=1, max_length=SENTENCES_MAX)


class Model:
    """A network and its digest. It computes one question at a time, in a thread of its own."""

    def __init__(self, directory):
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.net = DistilBertForSequenceClassification.from_pretrained(directory).eval()
        self.thread = concurrent.futures.ThreadPoolExecutor(1)
        self.digest = hashlib.sha256()
        for name, tensor in self.net.state_dict().items():
            self.digest.update(name.encode() + tensor.contiguous().numpy().tobytes())

    def key(self, text):
        h = self.digest.copy()
        h.update(json.dumps(text).encode())
        return "mlapi-cache:" + h.hexdigest()

    def compute(self, text):
        words = self.tokenizer(text, padding=True, truncation=True, max_length=128, return_tensors="pt")
        with torch.inference_mode():
            scores = self.net(words["input_ids"], attention_mask=words["attention_mask"]).logits.softmax(1)
        label = self.net.config.id2label
        return [[{"label": label[i], "score": row[i].item()} for i in row.argsort(descending=True).tolist()] for row in scores]

    async def answer(self, text):
        return await asyncio.get_running_loop().run_in_executor(self.thread, self.compute, text)


class Cache:
    """What redis knows. A redis that is away or broken knows nothing."""

    def __init__(self, url, seconds):
        self.seconds = seconds
        self.redis = redis.asyncio.from_url(url, password=os.environ.get("REDISCLI_AUTH") or None,
                                            socket_timeout=REDIS_SECONDS, socket_connect_timeout=REDIS_SECONDS)

    async def get(self, key):
        try:
            return await self.redis.get(key)
        except redis.RedisError:
            return None

    async def put(self, key, value):
        try:
            await self.redis.set(key, value, ex=self.seconds)
        except redis.RedisError:
            pass


def application(model, cache):
    app = fastapi.FastAPI(title="Which sentences praise")

    @app.get("/health")
    async def health():
        return {"status": "healthy"}

    @app.post("/predict")
    async def predict(question: Question):
        key = model.key(question.text)
        body = await cache.get(key) if cache else None
        headers = {"X-MLAPI-Cache": "Hit" if body else "Miss"} if cache else {}
        if not body:
            body = json.dumps({"predictions": await model.answer(question.text)}).encode()
            if cache:
                await cache.put(key, body)
        return fastapi.Response(body, media_type="application/json", headers=headers)

    return app


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="directory that train --output has written")
    parser.add_argument("--host", default="127.0.0.1", help="(%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(%(default)s)")
    parser.add_argument("--threads", type=int, help="that compute")
    parser.add_argument("--cache", help="redis://HOST:PORT/DB")
    parser.add_argument("--ttl", type=int, default=60, help="seconds that an answer is kept (%(default)s)")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    cache = Cache(args.cache, args.ttl) if args.cache else None
    uvicorn.run(application(Model(args.model), cache), host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
