"""A worker of cpu_peers.py: transformers, whole prompts of one length in one batch.

    transformers_peer.py DIR THREADS"""
import sys
import time

import torch
import transformers
from worker import serve


def main():
    torch.set_num_threads(int(sys.argv[2]))
    model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).eval()

    @torch.inference_mode()
    def answer(prompts, tokens):
        begin = time.perf_counter()
        ids, cache, found, seconds = torch.tensor(prompts), None, [], []
        for _ in range(tokens):
            out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = out.past_key_values
            ids = out.logits[:, -1].argmax(dim=-1, keepdim=True)
            found.append(ids[:, 0].tolist())
            seconds.append(time.perf_counter() - begin)
            begin = time.perf_counter()
        return {"first_s": seconds[0], "steps_s": seconds[1:], "tokens": [list(t) for t in zip(*found)]}

    serve({"name": f"transformers {transformers.__version__}, PyTorch {torch.__version__}"}, answer)


main()
