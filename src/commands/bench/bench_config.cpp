#include "commands/bench/bench_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/near_name.h"
#include "core/refusal.h"
#include "settings/table.h"
#include "settings/values.h"

namespace pagedinfer {
namespace {

constexpr int kMaxRequests = 10'000'000;
constexpr int kMaxTokens = 10'000'000;
constexpr Details kFile = {.not_empty = "a file", .value = "FILE"};

constexpr Details count(int64_t min, int64_t max, std::string_view absent = "the workload's") {
  return {.range = IntegerRange{min, max}, .absent = absent};
}

constexpr Details lengths(std::string_view absent = "the workload's") {
  return {.range = IntegerRange{1, kMaxTokens}, .absent = absent};
}

constexpr Details rate(double min, std::string_view value, std::string_view absent = "") {
  return {.range = NumberRange{min, 1e6}, .value = value, .absent = absent};
}

// The seed of the workload is the seed of the run's draws too.
constexpr Field<BenchConfig> seed_field() {
  return {{.get = [](const BenchConfig& bench) -> Value { return bench.seed(); },
           .set = [](BenchConfig& bench,
                     const Value& seed) { give(*find_setting("seed"), seed, bench.config); }},
          Kind::kSeed};
}

// The command line gives these texts in CommandLine::variants; another one is misplaced.
constexpr Field<BenchConfig> compare_field() {
  return {{.get = [](const BenchConfig&) { return Value(); },
           .set =
               [](BenchConfig&, const Value& text) {
                 throw Error(refusal("--compare", shortened(std::get<std::string>(text)),
                                     "texts with flags"));
               }},
          Kind::kFlags};
}

using Bench = BenchConfig;

constexpr FlagOf<BenchConfig> kBenchFlags[] = {
    flag_row(Group::kWorkload, "workload", field_of<&Bench::workload>(),
             "What to run: baseline, continuous_batching, paged_attention, chunked_prefill, "
             "prefix_caching, trace or random.",
             "The only flag you need.", {.value = "NAME"}),
    flag_row(Group::kWorkload, "seed", seed_field(),
             "The seed of lengths, tokens, arrivals and draws; the same seed gives the same "
             "workload.",
             "Change it for another workload of the same kind."),
    flag_row(Group::kWorkload, "requests", field_of<&Bench::requests>(),
             "How many requests are made.",
             "Raise it to 200 or more for a p99 that means something.", count(1, kMaxRequests)),
    flag_row(Group::kWorkload, "prompt_tokens", field_of<&Bench::prompt>(),
             "Tokens of a prompt besides its head: any number from A to B, all equally likely.",
             "For prompts like yours.", lengths()),
    flag_row(Group::kWorkload, "output_tokens", field_of<&Bench::output>(),
             "Tokens of a completion: any number from A to B, all equally likely.",
             "For completions like yours.", lengths()),
    flag_row(Group::kWorkload, "rate", field_of<&Bench::rate>(),
             "Requests per second. They arrive at random (a Poisson process); the arrivals of a "
             "trace are sped up or slowed down to this rate. With 0 all arrive at once.",
             "For latencies at that rate.", rate(0, "R", "the workload's")),
    flag_row(Group::kWorkload, "load", field_of<&Bench::load>(),
             "The rate as a share of the capacity, which is measured first: the requests per "
             "second of the same workload when all requests arrive at once.",
             "For latencies that can be compared across machines, as in 0.7.", rate(1e-6, "S")),
    flag_row(Group::kWorkload, "heads", field_of<&Bench::heads>(),
             "Every prompt begins with one of N texts, its head; with 0 prompts have nothing in "
             "common.",
             "Raise it to measure a prefix cache without room for all heads.", count(0, 1'000'000)),
    flag_row(Group::kWorkload, "head_tokens", field_of<&Bench::head_tokens>(),
             "Tokens of each head.", "For heads like yours.", count(1, kMaxTokens, "512")),
    flag_row(Group::kWorkload, "long_every", field_of<&Bench::long_every>(),
             "Of every N requests one, chosen at random, has a long prompt; with 0 none has.",
             "Lower it for more long prompts.", count(0, kMaxRequests)),
    flag_row(Group::kWorkload, "long_tokens", field_of<&Bench::long_prompt>(),
             "Tokens of a long prompt.",
             "Raise it to measure how much a long prompt delays other requests.", lengths("2048")),
    flag_row(Group::kWorkload, "trace_csv", field_of<&Bench::trace_csv, Kind::kPath>(),
             "The file of a trace with rows of TIMESTAMP,ContextTokens,GeneratedTokens, as in the "
             "Azure LLM inference traces.",
             "For the workload trace, which needs it.", kFile),
    flag_row(Group::kWorkload, "time_scale", field_of<&Bench::time_scale>(),
             "Multiply the arrival times of a trace by F.",
             "Lower it to replay a trace in less time.", rate(1e-6, "F", "1")),
    flag_row(Group::kMeasurement, "emit", field_of<&Bench::emit, Kind::kPath>(),
             "Write the workload to a file for pagedinfer run. Nothing is run unless --results or "
             "--compare is given too.",
             "For running the workload with another program.", kFile),
    flag_row(Group::kMeasurement, "results", field_of<&Bench::results, Kind::kPath>(),
             "Append a line with commit, machine, command, settings and summary.",
             "For keeping the measurement.", kFile),
    flag_row(Group::kMeasurement, "compare", compare_field(),
             "Run several configurations in turn and compare each with the first. A configuration "
             "is a text of flags, added to the other flags: any of the cache and of scheduling, "
             "and --max-model-len.",
             "For the effect of a flag, as in --compare \"--kv contiguous\" \"--kv paged\".",
             {.value = "\"FLAGS\" \"FLAGS\" ..."}),
    flag_row(Group::kMeasurement, "pairs", field_of<&Bench::pairs>(),
             "Rounds of --compare. One more round comes first and is not measured.",
             "Raise it to 7 or more when differences are below 5 %.", count(1, 1000, "3")),
};

constexpr std::string_view kIds = "the lines of a workload are token ids; leave it out";
constexpr std::string_view kJob = "a workload is run as a whole; leave it out";
constexpr std::string_view kForms = "a workload is answered freely; pagedinfer run keeps forms";
constexpr std::string_view kLengths = "each line says how long it gets; use --output-tokens";

constexpr UnusedSetting kUnusedInBench[] = {
    {"input", "bench makes the prompts; --emit FILE keeps them for pagedinfer run"},
    {"input_format", kIds},
    {"json_columns", kIds},
    {"prompt_field", kIds},
    {"id_field", kIds},
    {"prompt_template", kIds},
    {"message_template", kIds},
    {"keep", kIds},
    {"strict", kIds},
    {"chat", kIds},
    {"system", kIds},
    {"escape_special", kIds},
    {"limit", "use --requests"},
    {"shard", kJob},
    {"resume", kJob},
    {"retry_errors", kJob},
    {"errors", kJob},
    {"exit_zero_on_error_records", kJob},
    {"json_schema", kForms},
    {"regex", kForms},
    {"choices", kForms},
    {"grammar", kForms},
    {"json_whitespace", kForms},
    {"max_tokens", kLengths},
    {"min_tokens", kLengths},
    {"ignore_eos", kLengths},
    {"stop", kLengths},
    {"stop_token_ids", kLengths},
};

void check_trace(const BenchConfig& bench) {
  if (bench.trace_csv.empty()) {
    throw Error("--workload trace: expected the file of the trace, --trace-csv FILE");
  }
  const bool shapes = bench.prompt || bench.output || bench.long_prompt || bench.heads ||
                      bench.head_tokens || bench.long_every;
  if (shapes) {
    throw Error(
        "--workload trace: the trace says how long prompts and outputs are; leave --prompt-tokens, "
        "--output-tokens, --heads, --head-tokens, --long-every and --long-tokens out");
  }
  if (bench.time_scale && (bench.rate || bench.load)) {
    throw Error(fmt::format("--time-scale and {} both set how fast requests arrive: give one",
                            bench.rate ? "--rate" : "--load"));
  }
}

void check_comparison(const BenchConfig& bench) {
  if (bench.compare.empty()) {
    if (bench.pairs) throw Error("--pairs: there is nothing to pair without --compare");
    return;
  }
  if (bench.compare.size() == 1) {
    throw Error("--compare: found one configuration, expected two or more, each in quotes");
  }
  for (const Variant& variant : bench.compare) {
    if (variant.config.output.empty() && !variant.config.profile) continue;
    throw Error(fmt::format("{}: --compare runs several times; leave it out",
                            variant.config.profile ? "--profile" : "--output"));
  }
}

}  // namespace

std::vector<TokenId> ordinary_tokens(const ModelSpec& spec, const Tokenizer* tokenizer) {
  std::vector<TokenId> ordinary;
  for (TokenId token = 0; token < spec.vocab; ++token) {
    if (std::ranges::find(spec.eos_tokens, token) != spec.eos_tokens.end()) continue;
    const bool is_text = tokenizer == nullptr || !tokenizer->token_bytes(token).empty();
    if (is_text) ordinary.push_back(token);
  }
  return ordinary;
}

std::span<const FlagOf<BenchConfig>> bench_flags() { return kBenchFlags; }

std::span<const UnusedSetting> unused_in_bench() { return kUnusedInBench; }

void check_workload(const BenchConfig& bench) {
  std::string names;
  std::vector<std::string> known;
  for (const WorkloadShape& shape : kWorkloads) {
    known.emplace_back(shape.name);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  }
  if (bench.workload.empty()) {
    throw Error(fmt::format("--workload: expected one of {}", names));
  }
  if (find_workload(bench.workload) != nullptr) return;
  if (const std::optional<std::string> meant = near_name(bench.workload, known)) {
    throw Error(fmt::format("--workload {}: unknown; did you mean {}? There are {}",
                            shortened(bench.workload), *meant, names));
  }
  throw Error(
      fmt::format("--workload: found {}, expected one of {}", shortened(bench.workload), names));
}

void read_command_line(const CommandLine& line, BenchConfig& bench) {
  bench.command = line.text;
  if (!line.variants) return;
  if (line.variants->empty()) {
    throw Error("--compare: found no configuration, expected two or more, each in quotes");
  }
  constexpr VariantRules kRules = {
      .may_differ = can_share_model,
      .why_not =
          "configurations run over one loaded model and differ in flags of cache and "
          "scheduling only; give it to all of them, before --compare",
      .help = "pagedinfer bench --help"};
  for (const std::string& text : *line.variants) {
    bench.compare.push_back(line.read_variant("--compare", text, bench.config, kRules));
  }
}

WorkloadShape shape_of(const BenchConfig& bench) {
  WorkloadShape shape = *find_workload(bench.workload);
  if (bench.rate && bench.load) {
    throw Error("--rate and --load both set how fast requests arrive: give one");
  }
  check_comparison(bench);
  if (shape.from_trace) {
    check_trace(bench);
  } else if (!bench.trace_csv.empty() || bench.time_scale) {
    throw Error(fmt::format("{}: --workload {} reads no trace; use --workload trace",
                            bench.time_scale ? "--time-scale" : "--trace-csv", shape.name));
  }
  shape.requests = bench.requests.value_or(shape.requests);
  shape.prompt = bench.prompt.value_or(shape.prompt);
  shape.output = bench.output.value_or(shape.output);
  shape.rate = bench.rate.value_or(shape.rate);
  shape.heads = bench.heads.value_or(shape.heads);
  shape.head_tokens = bench.head_tokens.value_or(shape.head_tokens);
  shape.long_every = bench.long_every.value_or(shape.long_every);
  shape.long_prompt = bench.long_prompt.value_or(shape.long_prompt);
  if (bench.head_tokens && shape.heads == 0) {
    throw Error("--head-tokens: prompts have no heads without --heads N");
  }
  if (bench.long_prompt && shape.long_every == 0) {
    throw Error("--long-tokens: there are no long prompts without --long-every N");
  }
  return shape;
}

}  // namespace pagedinfer
