"""What the workers of cpu_peers.py share.

A worker loads its model, prints a line of JSON about itself, and answers requests until standard
input ends. A request is a line {"prompts": [[id, ...], ...], "tokens": N}: the prompts are completed
greedily, all in one batch, by N tokens each. Its answer is a line

    {"first_s": S, "steps_s": [S, ...], "tokens": [[id, ...], ...]}

with the seconds until every prompt had its first token, and those of each later step."""
import json
import os
import sys


def serve(about, answer):
    """Answers requests by answer(prompts, tokens) until standard input ends."""
    # Whatever the libraries print goes to standard error.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(about), file=channel, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answer(request["prompts"], request["tokens"])), file=channel, flush=True)
