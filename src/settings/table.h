// Every setting of a run, once: what --help and docs/flags.md say, what a flag, a line and
// generation_config.json may say, what the summary tells and what a resumed run must share.
// What a line says of its own (prompts, messages, lists of tokens) is no setting: those keys stand
// in request/request_keys.h.
#pragma once

#include <array>
#include <limits>
#include <string_view>

#include "settings/setting.h"

namespace pagedinfer {

namespace choices {

template <class T>
constexpr Choice named(std::string_view name, T value) {
  return {name, static_cast<int64_t>(value)};
}

inline constexpr Choice kOrders[] = {named("input", Config::Order::kInput),
                                     named("completion", Config::Order::kCompletion)};
inline constexpr Choice kProgress[] = {named("auto", Config::Progress::kAuto),
                                       named("on", Config::Progress::kOn),
                                       named("off", Config::Progress::kOff)};
inline constexpr Choice kWeights[] = {named("auto", Config::Weights::kAuto),
                                      named("dummy", Config::Weights::kDummy)};
inline constexpr Choice kTypes[] = {
    named("auto", kNoValue),       named("float32", DType::kF32), named("bfloat16", DType::kBF16),
    named("float16", DType::kF16), named("fp32", DType::kF32),    named("float", DType::kF32),
    named("bf16", DType::kBF16),   named("fp16", DType::kF16),    named("half", DType::kF16)};
inline constexpr Choice kPackings[] = {named("auto", Config::Packing::kAuto),
                                       named("on", Config::Packing::kOn),
                                       named("off", Config::Packing::kOff)};
inline constexpr Choice kQuantizations[] = {named("none", Quantization::kNone),
                                            named("int8", Quantization::kInt8)};
inline constexpr Choice kCacheTypes[] = {
    named("auto", kNoValue), named("int8", DType::kI8), named("float32", DType::kF32),
    named("bfloat16", DType::kBF16), named("float16", DType::kF16)};
inline constexpr Choice kDevices[] = {named("auto", Config::Device::kAuto),
                                      named("cpu", Config::Device::kCpu),
                                      named("cuda", Config::Device::kCuda)};
inline constexpr Choice kIsas[] = {named("auto", kNoValue), named("amx", CpuIsa::kAmx),
                                   named("avx512", CpuIsa::kAvx512), named("avx2", CpuIsa::kAvx2),
                                   named("portable", CpuIsa::kPortable)};
inline constexpr Choice kCaches[] = {named("paged", Config::Kv::kPaged),
                                     named("contiguous", Config::Kv::kContiguous)};
inline constexpr Choice kBatchings[] = {named("continuous", Config::Batching::kContinuous),
                                        named("static", Config::Batching::kStatic)};

}  // namespace choices

inline constexpr IntegerRange kAtLeastOne = {1, kMaxCount};
inline constexpr IntegerRange kLogProbRange = {0, 20};  // candidates beside a token
inline constexpr IntegerRange kLongAtLeastOne = {1, std::numeric_limits<int64_t>::max()};

constexpr Setting row(Group group, std::string_view key, Field field, Effect effect,
                      std::string_view help, std::string_view when, const Details& details = {}) {
  return {details, group, key, field, effect, help, when};
}

// The rows, in the order of --help. The default of a setting is the value of its field.
inline constexpr auto kSettings = [] {
  using enum Group;
  using enum Effect;
  return std::array{
      row(kJob, "input", field_of<&Config::input, Kind::kPath>(), kKeepsRecords,
          "Prompts, one JSON object a line; - reads standard input.", "The only flag you need.",
          {.letter = 'i',
           .not_empty = "a file of prompts, one JSON object a line, or - for standard input",
           .value = "FILE|-"}),
      row(kJob, "prompt_field", field_of<&Config::prompt_field>(), kChangesRecords,
          "The key that a plain line's prompt stands under.",
          "Give it for files that were made for something else.",
          {.not_empty = "a key that is not empty", .value = "NAME"}),
      row(kJob, "strict", field_of<&Config::strict>(), kChangesRecords,
          "A line with an unknown key gets an error record.",
          "Give it where a setting that goes unread would cost more than a line."),
      row(kJob, "chat", field_of<&Config::chat>(), kChangesRecords,
          "A prompt in words is one message of the user, for the model's chat template.",
          "Give it to ask a chat model plain questions."),
      row(kJob, "system", field_of<&Config::system>(), kChangesRecords,
          "A system message for conversations that have none.",
          "Give it to set tone or task for all of them.", {.absent = "none"}),
      row(kJob, "escape_special", field_of<&Config::escape_special>(), kChangesRecords,
          "Special tokens that a prompt or a message spells out are ordinary text, not tokens.",
          "Give it for text of people whom you do not trust: without it they can end a turn and "
          "begin another."),
      row(kJob, "limit", field_of<&Config::limit>(), kKeepsRecords,
          "Take the first N records only; with --resume a larger N goes on from there.",
          "Give it to try a large file out.", {.range = kLongAtLeastOne, .absent = "all"}),
      row(kJob, "shard", field_of<&Config::shard>(), kChangesRecords,
          "Take every Nth line only, from line I + 1 on; pagedinfer merge puts the outputs "
          "together.",
          "Give it to share a file among N machines.", {.absent = "all"}),
      row(kJob, "output", field_of<&Config::output, Kind::kPath>(), kKeepsRecords,
          "Where completions go; - is standard output, the default when the input is -.",
          "Give it for another place than beside NAME.jsonl.",
          {.letter = 'o', .value = "FILE|-", .absent = "NAME.completions.jsonl"}),
      row(kJob, "stats", field_of<&Config::stats, Kind::kPath>(), kKeepsRecords,
          "Where a line of statistics per request goes; the summary of the run stands beside it.",
          "Give it in a pipe, where there is no default.",
          {.value = "FILE", .absent = "NAME.stats.jsonl, beside the output"}),
      row(kJob, "trace", field_of<&Config::trace, Kind::kPath>(), kKeepsRecords,
          "A line of JSON per step.", "Give it to see what the scheduler did when.",
          {.value = "FILE", .absent = "none"}),
      row(kJob, "order", field_of<&Config::order>(), kChangesRecords, "Order of the records.",
          "Take completion to have each one as soon as it is done.", {.choices = choices::kOrders}),
      row(kJob, "overwrite", field_of<&Config::overwrite>(), kKeepsRecords,
          "Replace an output that exists; without it the run is refused.",
          "Give it when the old completions are not needed."),
      row(kJob, "resume", field_of<&Config::resume>(), kKeepsRecords,
          "Go on with a run that did not end, or whose input has grown.",
          "Give it whenever a run may be started again: with nothing there it begins at the "
          "beginning."),
      row(kJob, "retry_errors", field_of<&Config::retry_errors>(), kKeepsRecords,
          "With --resume, compute error records again.", "Give it when their cause is gone."),
      row(kJob, "sync_every", field_of<&Config::sync_every>(), kKeepsRecords,
          "A power failure loses at most the work of that time; 0 syncs records at the end only.",
          "Raise it where disks are slow; a killed run loses nothing anyway.",
          {.range = NumberRange{0, 86400}, .value = "SECONDS"}),
      row(kJob, "token_ids", field_of<&Config::token_ids>(), kChangesRecords,
          "Put token ids into the records.", "Give it to compare runs token by token."),
      row(kJob, "record_timing", field_of<&Config::record_timing>(), kChangesRecords,
          "Put times into the records, which then differ from run to run.",
          "Give it to see them beside the text."),
      row(kJob, "profile", field_of<&Config::profile>(), kKeepsRecords,
          "Time every operation and compare it with what the machine can do; completions do "
          "not change.",
          "Give it to see where the time goes."),
      row(kJob, "quiet", field_of<&Config::quiet>(), kKeepsRecords,
          "Neither progress nor the closing table; errors still show.", "Give it in scripts."),
      row(kJob, "progress", field_of<&Config::progress>(), kKeepsRecords,
          "Progress on standard error: redrawn on a terminal, else a line every 5 s.",
          "Take off to keep logs short.", {.choices = choices::kProgress}),
      row(kModel, "model", field_of<&Config::model, Kind::kPath>(), kKeepsRecords,
          "A Hugging Face model directory, a folder of its hub cache, or a bundled model: "
          "story-llama, story-qwen3 or story-gemma3.",
          "Give it to use a model of your own.",
          {.not_empty = "a directory or the name of a bundled model", .value = "DIR|NAME"}),
      row(kModel, "served_model_name", field_of<&Config::served_model_name>(), kChangesRecords,
          "What records of the OpenAI form call the model; by default the directory's name, or "
          "ORG/NAME in a hub cache.",
          "Give it where a program that reads them expects a certain name.",
          {.not_empty = "a name that is not empty", .value = "NAME", .absent = "the directory's"}),
      row(kModel, "weights", field_of<&Config::weights>(), kChangesRecords,
          "auto reads the directory's files; the weights of dummy are random, and the same in "
          "every run.",
          "Take dummy to measure a model of which there is only config.json.",
          {.choices = choices::kWeights}),
      row(kModel, "lora", field_of<&Config::lora, Kind::kPath>(), kKeepsRecords,
          "A LoRA adapter, the folder that PEFT saved it in, which is added to the weights when "
          "they are loaded.",
          "Give it to run a model that was tuned so.",
          {.not_empty = "the folder of an adapter", .value = "DIR", .absent = "none"}),
      row(kModel, "dtype", field_of<&Config::dtype>(), kChangesRecords,
          "The type of computation and of the cache; auto is the checkpoint's. The CPU computes "
          "float16 as float32, with a cache in float16.",
          "Take float32 to compare with a reference.", {.choices = choices::kTypes}),
      row(kModel, "quantize", field_of<&Config::quantize>(), kChangesRecords,
          "int8 multiplies in 8 bits: weights take half the memory of 16 bits and are read twice "
          "as fast, and completions change a little.",
          "Take int8 for speed, after a look at what your model loses.",
          {.choices = choices::kQuantizations}),
      row(kModel, "pack_weights", field_of<&Config::pack_weights>(), kKeepsRecords,
          "Copy bfloat16 weights at the start into the order in which products read them fastest; "
          "the copy takes the place of the file in memory. auto leaves it where the input asks for "
          "a handful of tokens. Weights in int8 are such a copy in any case.",
          "Take off where several processes share one file.", {.choices = choices::kPackings}),
      // A token in, a token out.
      row(kModel, "max_model_len", field_of<&Config::max_model_len>(), kChangesRecords,
          "Longest prompt and completion together.", "Lower it to bound memory and runaway lines.",
          {.range = IntegerRange{2, kMaxCount}, .absent = "config.json"}),
      row(kModel, "chat_template", field_of<&Config::chat_template, Kind::kPath>(), kChangesRecords,
          "The file of the chat template that writes conversations; none refuses them.",
          "Give it for a model without a template, or with another one than you want.",
          {.value = "FILE|none", .absent = "the model's"}),
      row(kModel, "chat_date", field_of<&Config::chat_date>(), kChangesRecords,
          "Today, for templates that tell the model. Fixed, so that a rerun gives the same.",
          "Give it where the date matters.", {.value = "YYYY-MM-DD"}),
      row(kDevice, "device", field_of<&Config::device>(), kChangesRecords,
          "What computes; auto is an NVIDIA GPU where there is one that works.",
          "Take cpu for the same bits on every machine, cuda to be told what is missing.",
          {.choices = choices::kDevices}),
      row(kDevice, "gpu_memory_utilization", field_of<&Config::gpu_memory_utilization>(),
          kKeepsRecords,
          "Share of the GPU's memory that may be in use, that of other programs included.",
          "Lower it to leave room for them.", {.range = NumberRange{0, 1, true}}),
      row(kDevice, "deterministic", field_of<&Config::deterministic>(), kChangesRecords,
          "On a GPU too, let a completion depend on nothing else in its batch, as on the CPU; "
          "it costs speed.",
          "Give it to compare runs with cmp."),
      row(kDevice, "gpu_cache", field_of<&Config::gpu_cache, Kind::kPath>(), kKeepsRecords,
          "A folder for the algorithms of products that were the fastest on this GPU when they "
          "were timed, at most 0.2 s of a start; none keeps none. Not used with --deterministic.",
          "Give it where the home directory cannot be written to.",
          {.value = "DIR|none", .absent = "~/.cache/pagedinfer"}),
      row(kDevice, "threads", field_of<&Config::threads>(), kKeepsRecords,
          "Threads that compute; results do not change.", "Lower it to leave cores to others.",
          {.range = IntegerRange{1, 1024}, .absent = "all cores"}),
      row(kDevice, "cpu_list", field_of<&Config::cpu_list>(), kKeepsRecords,
          "Processors to run on, as in 0,2-5: as many threads that compute, each on one of them, "
          "and all others anywhere on them. Results do not change.",
          "Give it where several runs share a machine, one for each memory node.",
          {.absent = "all"}),
      row(kDevice, "cpu_isa", field_of<&Config::cpu_isa>(), kKeepsRecords,
          "The CPU's instruction set; auto takes the best there is. Results do not change.",
          "Lower it only to test or to compare speed.", {.choices = choices::kIsas}),
      row(kCache, "kv", field_of<&Config::kv>(), kKeepsRecords,
          "Blocks on demand, or max-model-len positions set aside for each sequence.",
          "Take contiguous as the baseline to compare with.", {.choices = choices::kCaches}),
      row(kCache, "kv_dtype", field_of<&Config::kv_dtype>(), kChangesRecords,
          "The type of keys and values in the cache; auto is that of computation. A GPU has that "
          "one and int8. int8 takes half the memory of 16 bits, and completions change a little.",
          "Take int8 where the cache's size or its reading is the limit.",
          {.choices = choices::kCacheTypes}),
      row(kCache, "block_size", field_of<&Config::block_size>(), kKeepsRecords,
          "Positions in a block.",
          "Lower it to waste less of a last block, raise it for shorter tables.",
          {.range = IntegerRange{1, 65536}}),
      row(kCache, "num_blocks", field_of<&Config::num_blocks>(), kKeepsRecords,
          "Blocks in the cache; contiguous counts N times block-size positions.",
          "Give it to compare runs at equal memory.",
          {.range = kLongAtLeastOne, .absent = "by memory"}),
      row(kCache, "kv_memory", field_of<&Config::kv_memory, Kind::kBytes>(), kKeepsRecords,
          "Bytes for the cache, as in 500MB, 1.5GB or 2GiB, instead of --num-blocks; by default "
          "what max-batch-size sequences need, or 64, at most half of what is free.",
          "Give it to leave memory to others.", {.range = kLongAtLeastOne, .absent = "by memory"}),
      row(kCache, "prefix_cache", field_of<&Config::prefix_cache, Kind::kOnOff>(), kKeepsRecords,
          "Compute what prompts have in common once, and keep it while there is room.",
          "Take off as the baseline to compare with."),
      row(kScheduling, "batching", field_of<&Config::batching>(), kKeepsRecords,
          "static runs a batch to its last request before the next one, with contiguous memory "
          "and whole prompts.",
          "Take static as the baseline to compare with.", {.choices = choices::kBatchings}),
      row(kScheduling, "max_batch_size", field_of<&Config::max_batch_size>(), kKeepsRecords,
          "Sequences that run at once.", "Raise it for throughput, lower it for latency.",
          {.range = kAtLeastOne}),
      row(kScheduling, "chunked_prefill", field_of<&Config::chunked_prefill, Kind::kOnOff>(),
          kKeepsRecords, "Compute long prompts in pieces, so that they do not hold up the others.",
          "Take off as the baseline to compare with."),
      row(kScheduling, "prefill_chunk_size", field_of<&Config::prefill_chunk_size>(), kKeepsRecords,
          "Tokens of one prompt in a step, whatever the block size: a chunk may end within a "
          "block, "
          "and the next one fills it.",
          "Lower it for steadier tokens, raise it for throughput.", {.range = kAtLeastOne}),
      row(kScheduling, "max_prefill_chunks", field_of<&Config::max_prefill_chunks>(), kKeepsRecords,
          "Prompts that get tokens in a step.", "Lower it to keep steps short.",
          {.range = kAtLeastOne, .absent = "no cap"}),
      row(kScheduling, "max_step_tokens", field_of<&Config::max_step_tokens>(), kKeepsRecords,
          "Tokens in a step, at least max-batch-size. With chunking off at least, and by "
          "default, max-model-len + max-batch-size.",
          "Lower it for steadier tokens.", {.range = kAtLeastOne, .absent = "2048, GPU 8192"}),
      row(kScheduling, "admission_reserve", field_of<&Config::admission_reserve>(), kKeepsRecords,
          "Share of the cache kept free for growth when a request is admitted.",
          "Raise it if many are preempted.",
          {.range = NumberRange{.from = 0, .to = 1, .below = true}}),
      row(kForm, "json_schema", field_of<&Config::json_schema, Kind::kPath>(), kChangesRecords,
          "The file of a JSON schema: answers to lines that name no form are JSON that it allows.",
          "Give it to get every answer as the same fields.",
          {.not_empty = "the file of a JSON schema", .value = "FILE", .absent = "none"}),
      row(kForm, "regex", field_of<&Config::regex>(), kChangesRecords,
          "A regular expression that such answers match as a whole.",
          "Give it for dates, codes and numbers.",
          {.not_empty = "an expression that is not empty", .absent = "none"}),
      row(kForm, "choices", field_of<&Config::choices>(), kChangesRecords,
          "One of the texts that such answers are; give it once for each.",
          "Give it to sort lines into classes.", {.absent = "none"}),
      row(kForm, "grammar", field_of<&Config::grammar, Kind::kPath>(), kChangesRecords,
          "The file of a grammar that such answers follow, in EBNF from its rule root on.",
          "Give it for a language of your own.",
          {.not_empty = "the file of a grammar", .value = "FILE", .absent = "none"}),
      row(kForm, "json_whitespace", field_of<&Config::json_whitespace>(), kChangesRecords,
          "JSON that must have a form may have spaces and new lines between its parts.",
          "Give it where a model answers better in JSON as it writes it by itself."),
      row(kSampling, "max_tokens", field_of<&SamplingParams::max_tokens>(), kChangesRecords,
          "Longest completion.", "Raise it when finish_reason is length too often.",
          {.range = kAtLeastOne, .in_line = true}),
      row(kSampling, "min_tokens", field_of<&SamplingParams::min_tokens>(), kChangesRecords,
          "No end before that many tokens.", "Raise it for outputs of a length.",
          {.range = IntegerRange{0, kMaxCount}, .in_line = true}),
      row(kSampling, "temperature", field_of<&SamplingParams::temperature>(), kChangesRecords,
          "How far draws spread; 0 takes the likeliest token.", "Raise it for variety.",
          {.range = NumberRange{0, 10000}, .in_line = true, .generation_key = "temperature"}),
      row(kSampling, "top_k", field_of<&SamplingParams::top_k>(), kChangesRecords,
          "Draw from the N likeliest tokens; 0 or -1 = all.", "Lower it against odd words.",
          {.range = IntegerRange{-1, kMaxCount},
           .minus_one_is_zero = true,
           .in_line = true,
           .generation_key = "top_k"}),
      row(kSampling, "top_p", field_of<&SamplingParams::top_p>(), kChangesRecords,
          "Draw from the fewest tokens that hold this probability.", "Lower it against odd words.",
          {.range = NumberRange{0, 1, true}, .in_line = true, .generation_key = "top_p"}),
      row(kSampling, "min_p", field_of<&SamplingParams::min_p>(), kChangesRecords,
          "Drop tokens below this share of the likeliest one's probability.",
          "Raise it at high temperatures.",
          {.range = NumberRange{0, 1}, .in_line = true, .generation_key = "min_p"}),
      row(kSampling, "repetition_penalty", field_of<&SamplingParams::repetition_penalty>(),
          kChangesRecords, "Above 1 makes tokens of prompt and completion less likely.",
          "Raise it against loops.",
          {.range = NumberRange{0.001, 1000},
           .in_line = true,
           .generation_key = "repetition_penalty"}),
      row(kSampling, "presence_penalty", field_of<&SamplingParams::presence_penalty>(),
          kChangesRecords, "Taken from the logit of every token already in the completion.",
          "Raise it for new words.", {.range = NumberRange{-2, 2}, .in_line = true}),
      row(kSampling, "frequency_penalty", field_of<&SamplingParams::frequency_penalty>(),
          kChangesRecords,
          "Taken from the logit of a token once for each time it is in the completion.",
          "Raise it against repeated words.", {.range = NumberRange{-2, 2}, .in_line = true}),
      row(kSampling, "n", field_of<&SamplingParams::n>(), kChangesRecords,
          "Completions of each prompt.", "Raise it for several answers to choose from.",
          {.range = IntegerRange{1, kMaxSamples}, .in_line = true}),
      row(kSampling, "best_of", field_of<&SamplingParams::best_of>(), kChangesRecords,
          "Completions that are drawn of each prompt; the n likeliest ones are the answer.",
          "Raise it above n for better answers at a temperature.",
          {.range = IntegerRange{1, kMaxSamples}, .absent = "n", .in_line = true}),
      row(kSampling, "seed", field_of<&SamplingParams::seed>(), kChangesRecords,
          "Of the random draws; the same one gives the same completions.",
          "Change it for other completions.", {.in_line = true}),
      row(kSampling, "ignore_eos", field_of<&SamplingParams::ignore_eos>(), kChangesRecords,
          "Go on after the model's end.", "Give it to measure with outputs of one length.",
          {.in_line = true}),
      row(kSampling, "stop", field_of<&SamplingParams::stop>(), kChangesRecords,
          "End before this text; may be given several times.",
          "Give it for prompts with a known end.",
          {.absent = "none", .in_line = true, .generation_key = "stop_strings"}),
      row(kSampling, "stop_token_ids", field_of<&SamplingParams::stop_token_ids>(), kChangesRecords,
          "End with one of these tokens too.",
          "Give it for ends that the model's files do not name.",
          {.absent = "none", .in_line = true}),
      row(kSampling, "include_stop_str_in_output", field_of<&SamplingParams::keep_stop>(),
          kChangesRecords, "Whether what it stopped at is part of the text.",
          "Give it where the stop string belongs to the answer.",
          {.in_line = true, .is_flag = false}),
      row(kSampling, "skip_special_tokens", field_of<&SamplingParams::skip_special>(),
          kChangesRecords, "Whether special tokens are left out of the text.",
          "Take false to see them, as they are spelt.", {.in_line = true, .is_flag = false})};
}();

// The row of a key, or null.
constexpr const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : kSettings) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

}  // namespace pagedinfer
