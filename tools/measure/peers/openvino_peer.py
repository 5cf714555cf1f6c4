"""A worker of cpu_peers.py: OpenVINO GenAI's continuous batching.

    openvino_peer.py DIR THREADS

DIR has a model that optimum-cli has exported."""
import pathlib
import sys
import time

import numpy
import openvino
import openvino_genai
from worker import serve


def main():
    folder, threads = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    settings = openvino_genai.SchedulerConfig()
    settings.cache_size = 1
    settings.max_num_batched_tokens = 512
    settings.enable_prefix_caching = False
    pipeline = openvino_genai.ContinuousBatchingPipeline(
        folder, settings, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    next_id = 0

    def answer(prompts, tokens):
        nonlocal next_id
        config = openvino_genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True,
                                                 do_sample=False)
        found = [[] for _ in prompts]
        begin = time.perf_counter()
        handles = []
        for ids in prompts:
            tensor = openvino.Tensor(numpy.array([ids], dtype=numpy.int64))
            handles.append(pipeline.add_request(next_id, tensor, config))
            next_id += 1
        first, steps = None, []
        while pipeline.has_non_finished_requests():
            before = time.perf_counter()
            pipeline.step()
            now = time.perf_counter()
            for ids, handle in zip(found, handles):
                while handle.can_read():
                    for output in handle.read().values():
                        ids.extend(output.generated_ids)
            if first is not None:
                steps.append(now - before)
            elif all(found):
                first = now - begin
        return {"first_s": first, "steps_s": steps, "tokens": found}

    serve({"name": f"OpenVINO GenAI {openvino_genai.__version__}"}, answer)


main()
