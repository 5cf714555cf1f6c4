#!/usr/bin/env python3
"""Writes config.json of architectures that are not supported, as transformers 5.23.0 writes it.

  make_other_configs.py > tests/data/other_architectures.jsonl

Needs exactly transformers 5.23.0. One line for each architecture: its config.json.
"""

import json

import transformers

from make_goldens import pinned

NAMES = ["ApertusForCausalLM", "BertForMaskedLM", "BloomForCausalLM", "Cohere2ForCausalLM",
         "CohereForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "FalconForCausalLM",
         "GPT2LMHeadModel",
         "GPTNeoXForCausalLM", "JambaForCausalLM", "MambaForCausalLM", "NemotronForCausalLM",
         "OlmoForCausalLM", "OPTForCausalLM", "PhiForCausalLM", "PhimoeForCausalLM",
         "Qwen3NextForCausalLM", "StableLmForCausalLM", "Starcoder2ForCausalLM", "T5ForConditionalGeneration"]


def main():
    pinned("transformers")
    for name in NAMES:
        config = getattr(transformers, name).config_class()
        config.architectures = [name]
        print(json.dumps(json.loads(config.to_json_string(use_diff=False)), separators=(",", ":")))


if __name__ == "__main__":
    main()
