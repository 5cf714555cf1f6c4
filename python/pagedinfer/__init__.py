"""Offline batch inference: files, lists and tables of prompts through the program `pagedinfer`.

    import pagedinfer
    for record in pagedinfer.run("prompts.jsonl", model="story-llama", max_tokens=64):
        print(record["text"])

Settings are the flags of `pagedinfer run`, with underscores: max_batch_size=8 is --max-batch-size 8.
"""
from .program import PagedinferError, binary, version
from .runs import Completions, Records, read, run
from .tables import run_table

__all__ = ["Completions", "PagedinferError", "Records", "binary", "read", "run", "run_table", "version"]
