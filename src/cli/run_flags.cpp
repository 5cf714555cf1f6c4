#include "cli/run_flags.h"

#include <cstdint>

#include "cli/flag_group.h"
#include "core/sampling_ranges.h"

namespace pagedinfer {
namespace {

const Names<bool> kOnOff = {{"on", true}, {"off", false}};

void add_job_flags(FlagGroup group, Config& config) {
  group.add("-i,--input", config.input, "FILE|-",
            "Prompts, one JSON object a line; - reads standard input. The only flag you need.");
  group.add("--prompt-field", config.prompt_field, "NAME [prompt]",
            "The key that a plain line's prompt stands under. Give it for files that were made "
            "for something else.");
  group.add_switch("--strict", config.strict,
                   "A line with a key that is not known gets an error record. Give it where a "
                   "setting that goes unread would cost more than a line.");
  group.add_switch("--chat", config.chat,
                   "A prompt in words is one message of the user, for the model's chat template. "
                   "Give it to ask a chat model plain questions.");
  group.add_text("--system", config.system, "TEXT [none]",
                 "A system message for conversations that have none. Give it to set tone or task "
                 "for all of them.");
  group.add("--limit", config.limit, "N [all]",
            "Take the first N records only. Give it to try a large file out; with --resume a "
            "larger N goes on from there.");
  group.add_shard("--shard", config.shard, "I/N [all]",
                  "Take every Nth line only, from line I + 1 on. Give it to share a file among N "
                  "machines; pagedinfer merge puts the outputs together.");
  group.add("-o,--output", config.output, "FILE|- [NAME.completions.jsonl]",
            "Where completions go. Give it for another place than beside NAME.jsonl; - is standard "
            "output, the default when the input is -.");
  group.add("--stats", config.stats, "FILE [NAME.stats.jsonl]",
            "Where times per request and the summary are appended. Give it in a pipe, where there "
            "is no default.");
  group.add("--trace", config.trace, "FILE [none]",
            "A line of JSON per step. Give it to see what the scheduler did when.");
  group.add_choice<Config::Order>(
      "--order", config.order,
      {{"input", Config::Order::kInput}, {"completion", Config::Order::kCompletion}},
      "input|completion [input]",
      "Order of the records. Take completion to have each one as soon as it is "
      "done.");
  group.add_switch("--overwrite", config.overwrite,
                   "Give it to replace an output that exists. Without it the run is refused.");
  group.add_switch("--resume", config.resume,
                   "Go on with a run that did not end, or whose input has grown. Give it whenever "
                   "a run may be started again: with nothing there it begins at the beginning.");
  group.add_switch("--retry-errors", config.retry_errors,
                   "With --resume, compute error records again. For when their cause is gone.");
  group.add("--sync-every", config.sync_every, "SECONDS [5]",
            "A power failure loses at most that much; 0 syncs at the end only. Raise it where "
            "disks are slow; a killed run loses nothing anyway.");
  group.add_switch("--token-ids", config.token_ids,
                   "Put token ids into the records. For comparing runs token by token.");
  group.add_switch(
      "--record-timing", config.record_timing,
      "Put times into the records. Give it to see them beside the text; the records then "
      "differ from run to run.");
  group.add_switch("--profile", config.profile,
                   "Time every operation and compare it with what the machine can do. Give it to "
                   "see where the time goes; completions do not change.");
  group.add_switch("--quiet", config.quiet,
                   "Neither progress nor the closing table. For scripts; errors still show.");
  group.add_choice<Config::Progress>("--progress", config.progress,
                                     {{"auto", Config::Progress::kAuto},
                                      {"on", Config::Progress::kOn},
                                      {"off", Config::Progress::kOff}},
                                     "auto|on|off [auto]",
                                     "Progress on standard error: redrawn on a terminal, else a "
                                     "line every 5 s. Take off to keep logs short.");
}

void add_model_flags(FlagGroup group, Config& config) {
  group.add("--model", config.model, "DIR|NAME [story-llama]",
            "A Hugging Face model directory, or the name of a bundled model. Give it to use a "
            "model of your own.");
  group.add_text(
      "--served-model-name", config.served_model_name, "NAME [the directory's]",
      "What records of the OpenAI form call the model. Give it where a program that reads "
      "them expects a certain name.");
  group.add_choice<Config::Weights>(
      "--weights", config.weights,
      {{"auto", Config::Weights::kAuto}, {"dummy", Config::Weights::kDummy}}, "auto|dummy [auto]",
      "auto reads the directory's files. Take dummy to measure a model of which there is "
      "only config.json: its weights are random, and the same in every run.");
  group.add_choice<std::optional<DType>>(
      "--dtype", config.dtype,
      {{"auto", std::nullopt},
       {"float32", DType::kF32},
       {"bfloat16", DType::kBF16},
       {"float16", DType::kF16},
       {"fp32", DType::kF32},
       {"float", DType::kF32},
       {"bf16", DType::kBF16},
       {"fp16", DType::kF16},
       {"half", DType::kF16}},
      "TYPE [auto]",
      "auto, float32 (fp32, float), bfloat16 (bf16) or float16 (fp16, half): the type of "
      "computation; auto is the checkpoint's. Take float32 to compare with a reference.");
  group.add("--max-model-len", config.max_model_len, "N [config.json]",
            "Longest prompt and completion together. Lower it to bound memory and runaway lines.");
  group.add("--chat-template", config.chat_template, "NAME|none [the model's]",
            "How conversations are written: chatml, gemma2, gemma3, llama3, mistral-nemo, qwen2.5 "
            "or qwen3. Give it for a model whose own template is none of these.");
  group.add("--chat-date", config.chat_date, "TEXT [26 Jul 2024]",
            "Today, for templates that tell the model (llama3). Fixed, so that a rerun gives the "
            "same; give it where the date matters.");
}

void add_device_flags(FlagGroup group, Config& config) {
  group.add_choice<Config::Device>(
      "--device", config.device,
      {{"auto", Config::Device::kAuto},
       {"cpu", Config::Device::kCpu},
       {"cuda", Config::Device::kCuda}},
      "auto|cpu|cuda [auto]",
      "What computes; auto is an NVIDIA GPU where there is one that works. Take cpu for the "
      "same bits on every machine, cuda to be told what is missing.");
  group.add("--gpu-memory-utilization", config.gpu_memory_utilization, "F [0.9]",
            "Share of the GPU's memory that may be in use, that of other programs included. Lower "
            "it to leave room for them.");
  group.add_switch("--deterministic", config.deterministic,
                   "On a GPU too, let a completion depend on nothing else in its batch, as on the "
                   "CPU. Give it to compare runs with cmp; it costs speed.");
  group.add("--threads", config.threads, "N [all cores]",
            "Threads that compute. Lower it to leave cores to others; results do not change.");
  group.add_choice<std::optional<CpuIsa>>(
      "--cpu-isa", config.cpu_isa,
      {{"auto", std::nullopt},
       {"amx", CpuIsa::kAmx},
       {"avx512", CpuIsa::kAvx512},
       {"avx2", CpuIsa::kAvx2},
       {"portable", CpuIsa::kPortable}},
      "NAME [auto]",
      "auto, amx, avx512, avx2 or portable; auto takes the best there is. Results do not "
      "change: lower it only to test or to compare speed.");
}

void add_cache_flags(FlagGroup group, Config& config) {
  group.add_choice<Config::Kv>(
      "--kv", config.kv, {{"paged", Config::Kv::kPaged}, {"contiguous", Config::Kv::kContiguous}},
      "paged|contiguous [paged]",
      "Blocks on demand, or max-model-len positions set aside for each "
      "sequence. Take contiguous as the baseline to compare with.");
  group.add("--block-size", config.block_size, "N [16]",
            "Positions in a block. Lower it to waste less of a last block, raise it for shorter "
            "tables.");
  group.add("--num-blocks", config.num_blocks, "N [by memory]",
            "Blocks in the cache; contiguous counts N times block-size positions. Give it to "
            "compare runs at equal memory.");
  group.add_bytes(
      "--kv-memory", config.kv_memory, "BYTES [by memory]",
      "Bytes for the cache, as in 500MB, 1.5GB or 2GiB, instead of --num-blocks. Give it to leave "
      "memory to others; by default what max-batch-size sequences need, at most half of what "
      "is free.");
}

void add_scheduling_flags(FlagGroup group, Config& config) {
  group.add_choice<Config::Batching>(
      "--batching", config.batching,
      {{"continuous", Config::Batching::kContinuous}, {"static", Config::Batching::kStatic}},
      "continuous|static [continuous]",
      "static runs a batch to its last request before the next one, with "
      "contiguous memory and whole prompts. Take it as the baseline to compare "
      "with.");
  group.add("--max-batch-size", config.max_batch_size, "N [256]",
            "Sequences that run at once. Raise it for throughput, lower it for latency.");
  group.add_choice<bool>("--chunked-prefill", config.chunked_prefill, kOnOff, "on|off [on]",
                         "Compute long prompts in pieces, so that they do not hold up the "
                         "others. Take off as the baseline to compare with.");
  group.add("--prefill-chunk-size", config.prefill_chunk_size, "N [512]",
            "Tokens of one prompt in a step. Lower it for steadier tokens, raise it for "
            "throughput.");
  group.add("--max-prefill-chunks", config.max_prefill_chunks, "N [no cap]",
            "Prompts that get tokens in a step. Lower it to keep steps short.");
  group.add("--max-step-tokens", config.max_step_tokens, "N [2048, GPU 8192]",
            "Tokens in a step, at least max-batch-size. Lower it for steadier tokens. With "
            "chunking off at least, and by default, max-model-len + max-batch-size.");
  group.add("--admission-reserve", config.admission_reserve, "F [0.2]",
            "Share of the cache kept free for growth when a request is admitted. Raise it if "
            "many are preempted.");
}

void add_sampling_flags(FlagGroup group, Config::Sampling& sampling) {
  group.add("--max-tokens", sampling.max_tokens, kMaxTokensRange, "N [256]",
            "Longest completion. Raise it when finish_reason is length too often.");
  group.add("--min-tokens", sampling.min_tokens, kMinTokensRange, "N [0]",
            "No end before that many tokens. For outputs of a length.");
  group.add("--temperature", sampling.temperature, kTemperatureRange, "F [model's, 0]",
            "0 takes the likeliest token; raise it for variety.");
  group.add("--top-k", sampling.top_k, kTopKRange, "N [model's, 0]",
            "Draw from the N likeliest tokens; 0 or -1 = all. Lower it against odd words.");
  group.add("--top-p", sampling.top_p, kTopPRange, "F [model's, 1]",
            "Draw from the fewest tokens that hold this probability. Lower it against odd words.");
  group.add("--min-p", sampling.min_p, kMinPRange, "F [model's, 0]",
            "Drop tokens below this share of the likeliest one's probability. Raise it at high "
            "temperatures.");
  group.add("--repetition-penalty", sampling.repetition_penalty, kRepetitionPenaltyRange,
            "F [model's, 1]",
            "Above 1 makes tokens of prompt and completion less likely. Raise it against loops.");
  group.add("--presence-penalty", sampling.presence_penalty, kPresencePenaltyRange, "F [0]",
            "Taken from the logit of every token already in the completion. Raise it for new "
            "words.");
  group.add("--frequency-penalty", sampling.frequency_penalty, kFrequencyPenaltyRange, "F [0]",
            "The same, times how often it is there. Raise it against repeated words.");
  group.add("--seed", sampling.seed, "N [0]",
            "Of the random draws. Change it for other completions; the same one gives the same.");
  group.add_list("--stop", sampling.stop, "TEXT [none]",
                 "End before this text; may be given several times. For prompts with a known end.");
  group.add_list("--stop-token-ids", sampling.stop_token_ids, "N,N,... [none]",
                 "End with one of these tokens too. Give it for ends that the model's files do not "
                 "name.");
  group.add_switch("--ignore-eos", sampling.ignore_eos,
                   "Go on after the model's end. For measuring with outputs of one length.");
}

}  // namespace

void add_run_flags(CLI::App& command, Config& config) {
  add_job_flags({command, "Job"}, config);
  add_model_flags({command, "Model"}, config);
  add_device_flags({command, "Device"}, config);
  add_cache_flags({command, "Cache"}, config);
  add_scheduling_flags({command, "Scheduling"}, config);
  add_sampling_flags({command, "Sampling"}, config.sampling);
  command.footer(
      "\nA line may override the sampling flags; they override the model's generation_config.json."
      "\nExit codes: 0 all lines completed, 1 the run could not go on, 2 some lines ended in an"
      "\nerror record, 130 interrupted.");
}

}  // namespace pagedinfer
