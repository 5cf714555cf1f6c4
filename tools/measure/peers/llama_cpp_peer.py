"""A worker of cpu_peers.py: llama.cpp, by its C interface.

    llama_cpp_peer.py FILE.gguf THREADS MAX_POSITIONS"""
import sys
import time

import llama_cpp
import numpy
from worker import serve


def fill(batch, places):
    """places: (token, position, sequence, whether its logits are wanted)."""
    batch.n_tokens = len(places)
    for i, (token, position, sequence, wanted) in enumerate(places):
        batch.token[i] = token
        batch.pos[i] = position
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = sequence
        batch.logits[i] = wanted


def main():
    path, threads, max_positions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(path.encode(),
                                                 llama_cpp.llama_model_default_params())
    num_vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = max_positions
    params.n_batch = params.n_ubatch = 512
    params.n_seq_max = 64
    params.kv_unified = True
    params.n_threads = params.n_threads_batch = threads
    context = llama_cpp.llama_init_from_model(model, params)
    batch = llama_cpp.llama_batch_init(512, 0, 1)

    def most_likely(place):
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, place),
                                          shape=(num_vocab,))
        return int(logits.argmax())

    def decode(places):
        fill(batch, places)
        if code := llama_cpp.llama_decode(context, batch):
            raise SystemExit(f"llama_decode: code {code}")
        return {place[2]: most_likely(i) for i, place in enumerate(places) if place[3]}

    def answer(prompts, tokens):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), False)
        begin = time.perf_counter()
        places = [(token, i, sequence, i + 1 == len(ids)) for sequence, ids in enumerate(prompts)
                  for i, token in enumerate(ids)]
        last = {}
        for i in range(0, len(places), 512):
            last.update(decode(places[i:i + 512]))
        first = time.perf_counter() - begin
        found, steps = [[last[i]] for i in range(len(prompts))], []
        for step in range(tokens - 1):
            before = time.perf_counter()
            last = decode([(ids[-1], len(prompts[i]) + step, i, True)
                           for i, ids in enumerate(found)])
            for i, ids in enumerate(found):
                ids.append(last[i])
            steps.append(time.perf_counter() - before)
        return {"first_s": first, "steps_s": steps, "tokens": found}

    serve({"name": f"llama.cpp of llama-cpp-python {llama_cpp.__version__}"}, answer)


main()
