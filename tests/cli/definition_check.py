"""Compare a definition file as spython reads it with what `mlrun build --check --json` says, on standard input.

usage: definition_check.py FILE <INSTRUCTIONS
"""
import json
import logging
import sys

from spython.main.parse.parsers import SingularityParser

logging.disable()
theirs = SingularityParser(sys.argv[1]).recipe["spython-base"]
ours = [json.loads(line) for line in sys.stdin]


def of(word):
    return [one for one in ours if one["instruction"] == word]


def lines(text):
    return [line.strip() for line in text.split("\n") if line.strip()]


def code(some):
    """It takes comments at a section's beginning for the file's."""
    return [line for line in some if not line.startswith("#")]


def content(name):
    return lines("".join(h["content"] for one in ours for h in one["heredocs"] if h["name"].endswith(name)))


def pairs():
    for copy in of("COPY"):
        args = copy["args"]
        yield from zip(args[::2], args[1::2])


def same(what, mine, other):
    if mine != other:
        sys.exit(f"{sys.argv[1]}: {what}:\n  mlrun   {mine}\n  spython {other}")


same("From", of("FROM")[0]["args"][0].lower(), theirs.fromHeader)
same("%files", [" ".join(pair).strip() for pair in pairs()],
     [" ".join(line.replace('"', "").split(" ")) for line in theirs.files if not line.startswith("#")])
post = code(content("/.post.script"))
same("%post", post, code(theirs.install)[:len(post)])
same("%environment", [line.removeprefix("export").strip() for line in content("90-environment.sh") if "=" in line],
     theirs.environ)
same("%labels", sorted(" ".join(pair) for pair in zip(*[iter(sum((one["args"] for one in of("LABEL")), []))] * 2)),
     sorted(line for line in theirs.labels if not line.startswith("#")))
