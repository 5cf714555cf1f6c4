// The command line: flags to a Config, exceptions to an exit code. The only file that knows
// CLI11.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/error.h"
#include "engine/job.h"

namespace pagedinfer {
namespace {

// Named by the tool's plan and not there yet: refused with more than "unknown".
constexpr std::string_view kLater[] = {"merge",
                                       "bench",
                                       "verify",
                                       "plan",
                                       "--limit",
                                       "--shard",
                                       "--prompt-field",
                                       "--chat",
                                       "--system",
                                       "--profile",
                                       "--weights",
                                       "--chat-template",
                                       "--chat-date",
                                       "--deterministic",
                                       "--gpu-memory-utilization",
                                       "--kv-dtype",
                                       "--prefix-cache",
                                       "--quantize",
                                       "--logit-bias",
                                       "--n",
                                       "--best-of",
                                       "--beam-width",
                                       "--length-penalty",
                                       "--early-stopping",
                                       "--logprobs",
                                       "--prompt-logprobs"};

constexpr size_t kHelpColumn = 36;  // where the sentences of --help begin
constexpr size_t kHelpWidth = 100;

// Breaks a text into lines that fit beside the names of the flags.
std::string wrapped(std::string_view text) {
  constexpr size_t kWidth = kHelpWidth - kHelpColumn;
  std::string out;
  while (text.size() > kWidth) {
    const size_t space = text.rfind(' ', kWidth);
    out.append(text.substr(0, space)) += '\n';
    text.remove_prefix(space + 1);
  }
  return out.append(text);
}

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

// The flags of one heading of --help.
class FlagGroup {
 public:
  FlagGroup(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}

  // `value` stands behind the flag in --help: what it takes, and its default in brackets.
  template <class T>
  CLI::Option* add(const char* flag, T& field, const char* value, const char* help) {
    return describe(app_.add_option(flag, field), value, help);
  }

  // A flag that takes a decimal integer, all of which fits its field.
  template <std::integral T>
  void add(const char* flag, std::optional<T>& field, const char* value, const char* help) {
    const auto read = [=, &field](const std::string& given) {
      T number = 0;
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
      if (error != std::errc() || end != given.data() + given.size()) {
        throw Error(fmt::format("{} {}: expected a decimal integer from {} to {}", flag, given,
                                std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
      }
      field = number;
    };
    describe(app_.add_option_function<std::string>(flag, read), value, help);
  }

  // A flag that takes a number of bytes, as in 500MB.
  void add_bytes(const char* flag, std::optional<int64_t>& field, const char* value,
                 const char* help) {
    describe(app_.add_option(flag, field)->transform(CLI::AsSizeValue(true)), value, help);
  }

  // A flag that stands alone and turns something on.
  template <class T>
  void add_switch(const char* flag, T& field, const char* help) {
    describe(app_.add_flag(flag, field), "", help);
  }

  // A flag that takes one of the names.
  template <class T, class Field>
  void add_choice(const char* flag, Field& field, const Names<T>& names, const char* value,
                  const char* help) {
    const auto choose = [=, &field](const std::string& given) {
      std::string known;
      for (const auto& [name, meaning] : names) {
        if (given == name) {
          field = meaning;
          return;
        }
        known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
      }
      throw Error(fmt::format("{} {}: expected one of {}", flag, given, known));
    };
    describe(app_.add_option_function<std::string>(flag, choose), value, help);
  }

 private:
  CLI::Option* describe(CLI::Option* option, const char* value, const char* help) {
    return option->group(name_)->option_text(value)->description(wrapped(help));
  }

  CLI::App& app_;
  std::string name_;
};

const Names<bool> kOnOff = {{"on", true}, {"off", false}};

void add_job_flags(FlagGroup group, Config& config) {
  group.add("--input", config.input, "FILE|-",
            "Prompts, one JSON object a line; - reads standard input. The only flag you need.");
  group.add("--output", config.output, "FILE|- [NAME.completions.jsonl]",
            "Where completions go. Give it for another place than beside NAME.jsonl; - is standard "
            "output, the default when the input is -.");
  group.add("--stats", config.stats, "FILE [NAME.stats.jsonl]",
            "Where times per request and the summary are appended. Give it in a pipe, where there "
            "is no default.");
  group.add("--trace", config.trace, "FILE [none]",
            "A line of JSON per step. Give it to see what the scheduler did when.");
  group.add_choice<bool>("--order", config.completion_order,
                         {{"input", false}, {"completion", true}}, "input|completion [input]",
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
  group.add("--dtype", config.dtype, "TYPE [auto]",
            "auto, float32, bfloat16 or float16: the type of computation; auto is the "
            "checkpoint's. Take float32 to compare with a reference.");
  group.add("--max-model-len", config.max_model_len, "N [config.json]",
            "Longest prompt and completion together. Lower it to bound memory and runaway lines.");
}

void add_device_flags(FlagGroup group, Config& config) {
  group.add("--device", config.device, "auto|cpu [auto]",
            "What computes. This build has the CPU only.");
  group.add("--threads", config.threads, "N [all cores]",
            "Threads that compute. Lower it to leave cores to others; results do not change.");
  group.add("--cpu-isa", config.cpu_isa, "NAME [auto]",
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
      "Bytes for the cache, as in 500MB or 2GiB, instead of --num-blocks. Give it to leave "
      "memory to others; by default what max-batch-size sequences need, at most half of what "
      "is free.");
}

void add_scheduling_flags(FlagGroup group, Config& config) {
  group.add_choice<bool>("--batching", config.static_batching,
                         {{"continuous", false}, {"static", true}},
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
  group.add("--max-step-tokens", config.max_step_tokens, "N [2048]",
            "Tokens in a step, at least max-batch-size. Lower it for steadier tokens. With "
            "chunking off at least, and by default, max-model-len + max-batch-size.");
  group.add("--admission-reserve", config.admission_reserve, "F [0.2]",
            "Share of the cache kept free for growth when a request is admitted. Raise it if "
            "many are preempted.");
}

void add_sampling_flags(FlagGroup group, Config::Sampling& sampling) {
  group.add("--max-tokens", sampling.max_tokens, "N [256]",
            "Longest completion. Raise it when finish_reason is length too often.");
  group.add("--min-tokens", sampling.min_tokens, "N [0]",
            "No end before that many tokens. For outputs of a length.");
  group.add("--temperature", sampling.temperature, "F [model's, 0]",
            "0 takes the likeliest token; raise it for variety.");
  group.add("--top-k", sampling.top_k, "N [model's, 0]",
            "Draw from the N likeliest tokens; 0 = all. Lower it against odd words.");
  group.add("--top-p", sampling.top_p, "F [model's, 1]",
            "Draw from the fewest tokens that hold this probability. Lower it against odd words.");
  group.add("--min-p", sampling.min_p, "F [model's, 0]",
            "Drop tokens below this share of the likeliest one's probability. Raise it at high "
            "temperatures.");
  group.add("--repetition-penalty", sampling.repetition_penalty, "F [model's, 1]",
            "Above 1 makes tokens of prompt and completion less likely. Raise it against loops.");
  group.add("--presence-penalty", sampling.presence_penalty, "F [0]",
            "Taken from the logit of every token already in the completion. Raise it for new "
            "words.");
  group.add("--frequency-penalty", sampling.frequency_penalty, "F [0]",
            "The same, times how often it is there. Raise it against repeated words.");
  group.add("--seed", sampling.seed, "N [0]",
            "Of the random draws. Change it for other completions; the same one gives the same.");
  group
      .add("--stop", sampling.stop, "TEXT [none]",
           "End before this text; may be given several times. For prompts with a known end.")
      ->allow_extra_args(false);
  group
      .add("--stop-token-ids", sampling.stop_token_ids, "N,N,... [none]",
           "End with one of these tokens too. Give it for ends that the model's files do not "
           "name.")
      ->delimiter(',')
      ->allow_extra_args(false);
  group.add_switch("--ignore-eos", sampling.ignore_eos,
                   "Go on after the model's end. For measuring with outputs of one length.");
}

void check_leftovers(const std::vector<std::string>& leftovers, const std::string& help) {
  if (leftovers.empty()) return;
  const std::string name = leftovers[0].substr(0, leftovers[0].find('='));
  if (std::find(std::begin(kLater), std::end(kLater), name) != std::end(kLater)) {
    throw Error(name + ": not in this version");
  }
  throw Error(fmt::format("{}: not known; {} lists what is", name, help));
}

// The exit code.
int run(int argc, const char* const* argv) {
  Config config;
  CLI::App app("Completes a file of prompts with a language model.", "pagedinfer");
  CLI::App* job =
      app.add_subcommand("run", "Complete a file of prompts, one record for each line.");
  for (CLI::App* command : {&app, job}) {
    command->allow_extras();
    command->get_formatter()->column_width(kHelpColumn);
    command->set_help_flag("-h,--help", "Print this help and exit.");
    command->set_version_flag("--version", "pagedinfer " PAGEDINFER_VERSION,
                              "Print the version and exit.");
  }
  job->footer(
      "\nA line may override the sampling flags; they override the model's generation_config.json."
      "\nExit codes: 0 all lines completed, 1 the run could not go on, 2 some lines ended in an"
      "\nerror record, 130 interrupted.");
  add_job_flags({*job, "Job"}, config);
  add_model_flags({*job, "Model"}, config);
  add_device_flags({*job, "Device"}, config);
  add_cache_flags({*job, "Cache"}, config);
  add_scheduling_flags({*job, "Scheduling"}, config);
  add_sampling_flags({*job, "Sampling"}, config.sampling);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // help or version
    return app.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    throw Error(fmt::format("{}; pagedinfer run --help says what it takes", error.what()));
  }
  if (!job->parsed()) {
    check_leftovers(app.remaining(), "pagedinfer --help");
    throw Error(
        "expected a subcommand: pagedinfer run --input FILE (pagedinfer --help lists more)");
  }
  check_leftovers(app.remaining(true), "pagedinfer run --help");
  return run_job(config);
}

}  // namespace
}  // namespace pagedinfer

int main(int argc, char** argv) {
  try {
    return pagedinfer::run(argc, argv);
  } catch (const pagedinfer::Error& error) {
    std::fprintf(stderr, "pagedinfer: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "pagedinfer: out of memory\n");
  }
  return 1;
}
