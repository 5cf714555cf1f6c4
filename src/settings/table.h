// Every setting of a run has one row here. The rows decide the text of --help and docs/flags.md,
// the values that a flag, a line and generation_config.json may give, the settings in the summary,
// and the settings that a resumed run must share. Prompts, messages and other keys that only a line
// can have are in request/request_keys.h.
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

inline constexpr Choice kInputFormats[] = {
    named("auto", Config::InputFormat::kAuto), named("jsonl", Config::InputFormat::kJsonl),
    named("csv", Config::InputFormat::kCsv), named("tsv", Config::InputFormat::kTsv)};
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
inline constexpr Choice kQuantizations[] = {
    named("auto", kNoValue), named("none", Quantization::kNone),
    named("codes", Quantization::kCodes), named("int8", Quantization::kInt8),
    named("int4", Quantization::kInt4)};
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

constexpr Setting row(Group group, std::string_view key, const Field<Config>& field, Effect effect,
                      std::string_view help, std::string_view when, const Details& details = {}) {
  return {flag_row(group, key, field, help, when, details), effect};
}

// The rows, in the order of --help. The default of a setting is the initial value of its field.
inline constexpr auto kSettings = [] {
  using enum Group;
  using enum Effect;
  return std::array{
      row(kJob, "input", field_of<&Config::input, Kind::kPath>(), kKeepsRecords,
          "Prompts: one JSON object a line, or a table (CSV, TSV); - reads standard input.",
          "The only flag you need.",
          {.letter = 'i',
           .not_empty = "a file of prompts, or - for standard input",
           .value = "FILE|-",
           .is_usual = true}),
      row(kJob, "input_format", field_of<&Config::input_format>(), kKeepsRecords,
          "What the input is: JSON lines, or a table whose rows are objects of strings. auto takes "
          "tables by names in .csv or .tsv, which .gz or .zst may follow.",
          "For a table from standard input or of another name.",
          {.choices = choices::kInputFormats}),
      row(kJob, "json_columns", field_of<&Config::json_columns>(), kKeepsRecords,
          "The columns of a table whose cells are JSON, such as max_tokens or messages, separated "
          "by commas; an empty cell is null.",
          "For cells that are not strings.", {.value = "NAME,NAME,...", .absent = "none"}),
      row(kJob, "prompt_field", field_of<&Config::prompt_field>(), kChangesRecords,
          "The key of the prompt in a plain line.",
          "For files that were written for another program.",
          {.not_empty = "a key that is not empty", .value = "NAME", .is_usual = true}),
      row(kJob, "id_field", field_of<&Config::id_field>(), kChangesRecords,
          "The key of the id in a plain line; the record's id and the random numbers come from it.",
          "For files that call it task_id, question_id or the like.",
          {.not_empty = "a key that is not empty", .value = "NAME"}),
      row(kJob, "prompt_template", field_of<&Config::prompt_template>(), kChangesRecords,
          "Take each line as a row of a table, and make its prompt by a template over its keys, as "
          "in \"{{ question }} Answer:\"; @FILE reads the template from a file.",
          "For tables whose columns are no prompts yet.",
          {.not_empty = "a template, or @ and the file of one",
           .value = "TEXT|@FILE",
           .absent = "none",
           .is_usual = true}),
      row(kJob, "message_template", field_of<&Config::message_template>(), kChangesRecords,
          "The same for a message of a conversation, as in user=\"{{ question }}\" or "
          "system=@FILE. Repeat the flag for each message.",
          "For tables and a chat model.",
          {.value = "ROLE=TEXT|ROLE=@FILE", .absent = "none", .is_usual = true}),
      row(kJob, "keep", field_of<&Config::keep>(), kChangesRecords,
          "Keys of a line that its record repeats under input, as in id,url; all repeats all of "
          "them. The flag may be repeated too.",
          "For answers beside the rest of their row.",
          {.value = "KEY,KEY,...|all", .absent = "none", .is_usual = true}),
      row(kJob, "strict", field_of<&Config::strict>(), kChangesRecords,
          "A line with an unknown key gets an error record.",
          "For runs where an ignored key does more harm than a failed line."),
      row(kJob, "chat", field_of<&Config::chat>(), kChangesRecords,
          "Turn each text prompt into one user message and apply the model's chat template.",
          "For questions to a chat model.", {.is_usual = true}),
      row(kJob, "system", field_of<&Config::system>(), kChangesRecords,
          "A system message for conversations that have none.",
          "For a tone or a task that all of them share.", {.absent = "none"}),
      row(kJob, "escape_special", field_of<&Config::escape_special>(), kChangesRecords,
          "Treat special tokens that a prompt or a message spells out as ordinary text.",
          "For text from people you do not trust, who could otherwise end a turn and begin "
          "another."),
      row(kJob, "limit", field_of<&Config::limit>(), kKeepsRecords,
          "Complete only the first N records; with --resume a larger N goes on from there.",
          "For a first try of a large file.",
          {.range = kLongAtLeastOne, .absent = "all", .is_usual = true}),
      row(kJob, "shard", field_of<&Config::shard>(), kChangesRecords,
          "Complete only every Nth line, from line I + 1 on; pagedinfer merge joins the outputs.",
          "For a file that N machines share.", {.absent = "all"}),
      row(kJob, "output", field_of<&Config::output, Kind::kPath>(), kKeepsRecords,
          "The file for completions; - is standard output, the default when the input is -. A name "
          "in "
          ".gz or .zst makes compressed JSON lines, one in .csv a table.",
          "For another place than the input's folder.",
          {.letter = 'o', .value = "FILE|-", .absent = "NAME.completions.jsonl", .is_usual = true}),
      row(kJob, "keep_jsonl", field_of<&Config::keep_jsonl>(), kKeepsRecords,
          "Keep the JSON lines, OUTPUT.jsonl, of which an output in .gz, .zst or .csv is made.",
          "For merge, and for an input that may grow."),
      row(kJob, "stats", field_of<&Config::stats, Kind::kPath>(), kKeepsRecords,
          "Where a line of statistics per request goes; the summary of the run stands beside it.",
          "For a pipe, which has no default.",
          {.value = "FILE", .absent = "NAME.stats.jsonl, beside the output"}),
      row(kJob, "errors", field_of<&Config::errors, Kind::kPath>(), kKeepsRecords,
          "A file for a copy of the error records in the form of OpenAI's batches; it is written "
          "when the output is complete.",
          "For programs that expect errors in a file of their own.",
          {.value = "FILE", .absent = "none"}),
      row(kJob, "trace", field_of<&Config::trace, Kind::kPath>(), kKeepsRecords,
          "The file for one line of JSON per step.", "For a look at what the scheduler did.",
          {.value = "FILE", .absent = "none"}),
      row(kJob, "order", field_of<&Config::order>(), kChangesRecords, "The order of the records.",
          "Take completion to get each record as soon as it is done.",
          {.choices = choices::kOrders}),
      row(kJob, "overwrite", field_of<&Config::overwrite>(), kKeepsRecords,
          "Replace an output that exists; without it the run is refused.",
          "For an output that is no longer needed."),
      row(kJob, "resume", field_of<&Config::resume>(), kKeepsRecords,
          "Go on with a run that did not end, or whose input has grown.",
          "For any run that may be started again; without an earlier run it begins at the first "
          "line.",
          {.is_usual = true}),
      row(kJob, "retry_errors", field_of<&Config::retry_errors>(), kKeepsRecords,
          "With --resume, try lines with error records again.", "For errors whose cause is gone."),
      row(kJob, "exit_zero_on_error_records", field_of<&Config::exit_zero_on_error_records>(),
          kKeepsRecords, "End with code 0, not 2, if some lines ended in an error record.",
          "For a queue of jobs that starts again what ends with another code."),
      row(kJob, "sync_every", field_of<&Config::sync_every>(), kKeepsRecords,
          "Time between syncs of the records to disk: a power failure loses at most the work of "
          "that time. 0 syncs at the end only.",
          "Raise it for slow disks; a killed run loses nothing in any case.",
          {.range = NumberRange{0, 86400}, .value = "SECONDS"}),
      row(kJob, "token_ids", field_of<&Config::token_ids>(), kChangesRecords,
          "Put token ids into the records.", "For comparing runs token by token."),
      row(kJob, "record_timing", field_of<&Config::record_timing>(), kChangesRecords,
          "Put times into the records, which then differ from run to run.",
          "For times beside each text."),
      row(kJob, "profile", field_of<&Config::profile>(), kKeepsRecords,
          "Time every operation and compare it with the machine's peak rates; completions do not "
          "change.",
          "For finding where the time goes."),
      row(kJob, "quiet", field_of<&Config::quiet>(), kKeepsRecords,
          "Print neither progress nor the closing table. Errors, keys that may be mistyped and the "
          "last line still show.",
          "For scripts."),
      row(kJob, "progress", field_of<&Config::progress>(), kKeepsRecords,
          "Progress on standard error: redrawn on a terminal, else a line "
          "every 5 s, ever rarer in a long run.",
          "Take off to keep logs short.", {.choices = choices::kProgress}),
      row(kModel, "model", field_of<&Config::model, Kind::kPath>(), kKeepsRecords,
          "A Hugging Face model directory, a GGUF file, ORG/NAME of a model in the hub's cache, or "
          "a bundled "
          "model: story-llama, story-qwen3 or story-gemma3.",
          "For a model of your own.",
          {.not_empty = "a directory or the name of a model",
           .value = "DIR|NAME",
           .is_usual = true}),
      row(kModel, "served_model_name", field_of<&Config::served_model_name>(), kChangesRecords,
          "The model's name in records of the OpenAI form; by default the directory's name, or "
          "ORG/NAME in a hub cache.",
          "For programs that expect a certain name in the records.",
          {.not_empty = "a name that is not empty", .value = "NAME", .absent = "the directory's"}),
      row(kModel, "weights", field_of<&Config::weights>(), kChangesRecords,
          "auto reads the directory's files; dummy makes random weights, the same in every run.",
          "Take dummy to measure a model of which you have only config.json.",
          {.choices = choices::kWeights}),
      row(kModel, "lora", field_of<&Config::lora, Kind::kPath>(), kKeepsRecords,
          "The folder of a LoRA adapter, as PEFT saves it; the adapter is added to the weights at "
          "loading.",
          "For a model that was tuned with LoRA.",
          {.not_empty = "the folder of an adapter", .value = "DIR", .absent = "none"}),
      row(kModel, "dtype", field_of<&Config::dtype>(), kChangesRecords,
          "The type of computation and of the cache; auto takes the checkpoint's type. The CPU "
          "computes float16 as float32, with a cache in float16.",
          "Take float32 to compare with a reference.", {.choices = choices::kTypes}),
      row(kModel, "quantize", field_of<&Config::quantize>(), kChangesRecords,
          "The weights: codes keeps the 4 bits of a GPTQ, AWQ, compressed-tensors or MXFP4 "
          "checkpoint and the blocks of a GGUF file; none dequantizes them; int8 and int4 round to "
          "8 or 4 bits. auto is codes on the CPU, and "
          "none "
          "for other checkpoints. All but none multiply inputs in int8, and change completions a "
          "little.",
          "Take int8 for speed, or int4 for memory too, after a check of how your answers change.",
          {.choices = choices::kQuantizations}),
      row(kModel, "pack_weights", field_of<&Config::pack_weights>(), kKeepsRecords,
          "Copy bfloat16 weights at the start into the order that matrix products read fastest; "
          "the copy replaces the file in memory. auto does not copy for an input that asks for few "
          "tokens. Weights in int8 are always such a copy.",
          "Take off when several processes share one file.", {.choices = choices::kPackings}),
      // The minimum is one token of the prompt and one of the completion.
      row(kModel, "max_model_len", field_of<&Config::max_model_len>(), kChangesRecords,
          "Maximum tokens of prompt and completion together.",
          "Lower it to bound memory and runaway lines.",
          {.range = IntegerRange{2, kMaxCount}, .absent = "config.json"}),
      row(kModel, "chat_template", field_of<&Config::chat_template, Kind::kPath>(), kChangesRecords,
          "The file of the chat template, which turns conversations into prompts; none refuses "
          "conversations.",
          "For a model that has no template, or the wrong one.",
          {.value = "FILE|none", .absent = "the model's"}),
      row(kModel, "chat_date", field_of<&Config::chat_date>(), kChangesRecords,
          "Today's date for templates that tell it to the model. It is fixed, so that a rerun "
          "gives the same completions.",
          "For prompts in which the date matters.", {.value = "YYYY-MM-DD"}),
      row(kDevice, "device", field_of<&Config::device>(), kChangesRecords,
          "The device that computes; auto is an NVIDIA GPU if one works.",
          "Take cpu for the same bits on every machine, cuda for an error that says why the GPU "
          "does not work.",
          {.choices = choices::kDevices}),
      row(kDevice, "gpu_memory_utilization", field_of<&Config::gpu_memory_utilization>(),
          kKeepsRecords,
          "Share of the GPU's memory that this and all other programs may use together.",
          "Lower it to leave room for other programs.", {.range = NumberRange{0, 1, true}}),
      row(kDevice, "deterministic", field_of<&Config::deterministic>(), kChangesRecords,
          "Make a completion independent of the rest of its batch on a GPU too, as it is on the "
          "CPU; this costs speed.",
          "For runs that are compared with cmp."),
      row(kDevice, "gpu_cache", field_of<&Config::gpu_cache, Kind::kPath>(), kKeepsRecords,
          "The folder that remembers the fastest algorithms for matrix products on this GPU. "
          "Timing them takes at most 0.2 s of a start; none remembers nothing. Not used with "
          "--deterministic.",
          "For a home directory that cannot be written to.",
          {.value = "DIR|none", .absent = "~/.cache/pagedinfer"}),
      row(kDevice, "threads", field_of<&Config::threads>(), kKeepsRecords,
          "Threads that compute; results do not change.", "Lower it to leave cores to others.",
          {.range = IntegerRange{1, 1024}, .absent = "all cores"}),
      row(kDevice, "cpu_list", field_of<&Config::cpu_list>(), kKeepsRecords,
          "Processors to run on, as in 0,2-5. Each runs one thread that computes; other threads "
          "run on any of them. Results do not change.",
          "For several runs on one machine: give each the processors of one memory node.",
          {.absent = "all"}),
      row(kDevice, "cpu_isa", field_of<&Config::cpu_isa>(), kKeepsRecords,
          "The CPU's instruction set; auto takes the best there is. Results do not change.",
          "Lower it only to test or to compare speed.", {.choices = choices::kIsas}),
      row(kCache, "kv", field_of<&Config::kv>(), kKeepsRecords,
          "paged takes blocks on demand; contiguous reserves max-model-len positions for each "
          "sequence.",
          "Take contiguous for a baseline to compare with.", {.choices = choices::kCaches}),
      row(kCache, "kv_dtype", field_of<&Config::kv_dtype>(), kChangesRecords,
          "The type of keys and values in the cache; auto is the type of computation. A GPU allows "
          "that type and int8 only. int8 takes half the memory of 16 bits, and completions change "
          "a little.",
          "Take int8 when the cache limits how many sequences run, or how fast.",
          {.choices = choices::kCacheTypes}),
      row(kCache, "block_size", field_of<&Config::block_size>(), kKeepsRecords,
          "Tokens in a block of the cache.",
          "Lower it to waste less of each sequence's last block, raise it for shorter block "
          "tables.",
          {.range = IntegerRange{1, 65536}}),
      row(kCache, "num_blocks", field_of<&Config::num_blocks>(), kKeepsRecords,
          "Blocks in the cache; with --kv contiguous, N times block-size positions.",
          "For comparing runs at equal memory.", {.range = kLongAtLeastOne, .absent = "by memory"}),
      row(kCache, "kv_memory", field_of<&Config::kv_memory, Kind::kBytes>(), kKeepsRecords,
          "Bytes for the cache, as in 500MB, 1.5GB or 2GiB, instead of --num-blocks. The default "
          "is room for max-batch-size sequences of full length, or for 64 if that is more, but on "
          "a CPU at most half of the free memory.",
          "For leaving memory to other programs.",
          {.range = kLongAtLeastOne, .absent = "by memory"}),
      row(kCache, "prefix_cache", field_of<&Config::prefix_cache, Kind::kOnOff>(), kKeepsRecords,
          "Compute the common beginning of prompts once, and keep it while there is room.",
          "Take off for a baseline to compare with."),
      row(kScheduling, "batching", field_of<&Config::batching>(), kKeepsRecords,
          "static finishes every request of a batch before it begins the next batch, with "
          "contiguous memory and whole prompts.",
          "Take static for a baseline to compare with.", {.choices = choices::kBatchings}),
      row(kScheduling, "max_batch_size", field_of<&Config::max_batch_size>(), kKeepsRecords,
          "Sequences that run at once.", "Raise it for throughput, lower it for latency.",
          {.range = kAtLeastOne}),
      row(kScheduling, "chunked_prefill", field_of<&Config::chunked_prefill, Kind::kOnOff>(),
          kKeepsRecords,
          "Compute long prompts in pieces, so that they do not delay other requests.",
          "Take off for a baseline to compare with."),
      row(kScheduling, "prefill_chunk_size", field_of<&Config::prefill_chunk_size>(), kKeepsRecords,
          "Maximum tokens of one prompt in a step. A chunk may end within a block; the next chunk "
          "fills it.",
          "Lower it for a steadier stream of tokens, raise it for throughput.",
          {.range = kAtLeastOne}),
      row(kScheduling, "max_prefill_chunks", field_of<&Config::max_prefill_chunks>(), kKeepsRecords,
          "Maximum prompts that are computed in one step.", "Lower it to keep steps short.",
          {.range = kAtLeastOne, .absent = "no cap"}),
      row(kScheduling, "max_step_tokens", field_of<&Config::max_step_tokens>(), kKeepsRecords,
          "Maximum tokens in a step, at least max-batch-size. With --chunked-prefill off the "
          "minimum and the default are max-model-len + max-batch-size.",
          "Lower it for a steadier stream of tokens.",
          {.range = kAtLeastOne, .absent = "2048, GPU 8192"}),
      row(kScheduling, "admission_reserve", field_of<&Config::admission_reserve>(), kKeepsRecords,
          "Share of the cache that must stay free for growth when a request is admitted.",
          "Raise it if many requests are preempted.",
          {.range = NumberRange{.from = 0, .to = 1, .below = true}}),
      row(kForm, "json_schema", field_of<&Config::json_schema, Kind::kPath>(), kChangesRecords,
          "The file of a JSON schema that every answer follows, unless its line names another "
          "form.",
          "For answers that all have the same fields.",
          {.not_empty = "the file of a JSON schema",
           .value = "FILE",
           .absent = "none",
           .is_usual = true}),
      row(kForm, "regex", field_of<&Config::regex>(), kChangesRecords,
          "A regular expression that every whole answer matches, unless its line names another "
          "form.",
          "For dates, codes and numbers.",
          {.not_empty = "an expression that is not empty", .absent = "none"}),
      row(kForm, "choices", field_of<&Config::choices>(), kChangesRecords,
          "A text that an answer may be, unless its line names another form. Repeat the flag for "
          "each text.",
          "For sorting lines into classes.", {.absent = "none"}),
      row(kForm, "grammar", field_of<&Config::grammar, Kind::kPath>(), kChangesRecords,
          "The file of an EBNF grammar that every answer follows from rule root on, unless its "
          "line names another form.",
          "For a language of your own.",
          {.not_empty = "the file of a grammar", .value = "FILE", .absent = "none"}),
      row(kForm, "json_whitespace", field_of<&Config::json_whitespace>(), kChangesRecords,
          "Allow spaces and new lines between the parts of JSON in an answer that must have a "
          "form.",
          "For a model that answers better when it may format its JSON."),
      row(kSampling, "max_tokens", field_of<&SamplingParams::max_tokens>(), kChangesRecords,
          "Maximum tokens of a completion.", "Raise it when finish_reason is length too often.",
          {.range = kAtLeastOne, .in_line = true, .is_usual = true}),
      row(kSampling, "min_tokens", field_of<&SamplingParams::min_tokens>(), kChangesRecords,
          "Minimum tokens before a completion may end.",
          "Raise it against answers that are too short.",
          {.range = IntegerRange{0, kMaxCount}, .in_line = true}),
      row(kSampling, "temperature", field_of<&SamplingParams::temperature>(), kChangesRecords,
          "How random the draws are; 0 takes the likeliest token.", "Raise it for variety.",
          {.range = NumberRange{0, 10000},
           .in_line = true,
           .generation_key = "temperature",
           .is_usual = true}),
      row(kSampling, "top_k", field_of<&SamplingParams::top_k>(), kChangesRecords,
          "Draw from the N likeliest tokens; 0 or -1 = all.", "Lower it against odd words.",
          {.range = IntegerRange{-1, kMaxCount},
           .minus_one_is_zero = true,
           .in_line = true,
           .generation_key = "top_k"}),
      row(kSampling, "top_p", field_of<&SamplingParams::top_p>(), kChangesRecords,
          "Draw from the likeliest tokens, as many as it takes to reach this probability together.",
          "Lower it against odd words.",
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
          kChangesRecords,
          "Subtracted from the logit of every token that the completion already has.",
          "Raise it for new words.", {.range = NumberRange{-2, 2}, .in_line = true}),
      row(kSampling, "frequency_penalty", field_of<&SamplingParams::frequency_penalty>(),
          kChangesRecords,
          "Subtracted from a token's logit once for each time the completion has the token.",
          "Raise it against repeated words.", {.range = NumberRange{-2, 2}, .in_line = true}),
      row(kSampling, "n", field_of<&SamplingParams::n>(), kChangesRecords,
          "Completions of each prompt.", "Raise it for several answers to choose from.",
          {.range = IntegerRange{1, kMaxSamples}, .in_line = true}),
      row(kSampling, "best_of", field_of<&SamplingParams::best_of>(), kChangesRecords,
          "Completions that are drawn for each prompt; the n likeliest ones are the answer.",
          "Raise it above n for better answers at a temperature.",
          {.range = IntegerRange{1, kMaxSamples}, .absent = "n", .in_line = true}),
      row(kSampling, "seed", field_of<&SamplingParams::seed>(), kChangesRecords,
          "The seed of the random draws; the same seed gives the same completions.",
          "Change it for other completions.", {.in_line = true}),
      row(kSampling, "ignore_eos", field_of<&SamplingParams::ignore_eos>(), kChangesRecords,
          "Go on after the model's end-of-sequence tokens.",
          "For measurements with outputs of one length.", {.in_line = true}),
      row(kSampling, "stop", field_of<&SamplingParams::stop>(), kChangesRecords,
          "End the completion before this text.",
          "For answers that have a known end; repeat the flag for each text.",
          {.absent = "none", .in_line = true, .generation_key = "stop_strings"}),
      row(kSampling, "stop_token_ids", field_of<&SamplingParams::stop_token_ids>(), kChangesRecords,
          "End the completion with one of these tokens too.",
          "For end tokens that the model's files do not name.",
          {.absent = "none", .in_line = true}),
      row(kSampling, "include_stop_str_in_output", field_of<&SamplingParams::keep_stop>(),
          kChangesRecords, "Whether the text includes the stop string or token that ended it.",
          "For stop strings that belong to the answer.", {.in_line = true, .is_flag = false}),
      row(kSampling, "skip_special_tokens", field_of<&SamplingParams::skip_special>(),
          kChangesRecords, "Whether special tokens are left out of the text.",
          "Take false to see special tokens as they are spelt.",
          {.in_line = true, .is_flag = false})};
}();

// The row of a key, or null.
constexpr const Setting* find_setting(std::string_view key) {
  for (const Setting& setting : kSettings) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

}  // namespace pagedinfer
