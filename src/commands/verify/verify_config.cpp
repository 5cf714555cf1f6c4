#include "commands/verify/verify_config.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace pagedinfer {
namespace {

template <Variant VerifyConfig::*kSide>
constexpr Field<VerifyConfig> flags_of_side() {
  return {{.get = [](const VerifyConfig& verify) -> Value { return (verify.*kSide).flags; },
           .set = [](VerifyConfig& verify,
                     const Value& text) { (verify.*kSide).flags = std::get<std::string>(text); }},
          Kind::kFlags};
}

constexpr FlagOf<VerifyConfig> kVerifyFlags[] = {
    flag_row(Group::kComparison, "a", flags_of_side<&VerifyConfig::a>(),
             "The first configuration: a text of flags of model, device, cache and scheduling, "
             "added to the other flags.",
             "For comparing with another configuration than a contiguous cache."),
    flag_row(Group::kComparison, "b", flags_of_side<&VerifyConfig::b>(),
             "The second configuration, in the same form; \"\" adds nothing to the other flags.",
             "For checking another configuration than a paged cache."),
    flag_row(Group::kComparison, "tolerance", field_of<&VerifyConfig::tolerance>(),
             "Where the runs first choose different tokens, a request still agrees if the logits "
             "of the two tokens are at most X apart in both runs; later tokens are not compared. "
             "Log probabilities agree if they are at most X apart.",
             "For two types of computation or of the cache, which round differently, as in 0.05.",
             {.range = NumberRange{0, 1e6}, .value = "X"}),
    flag_row(Group::kComparison, "logits", field_of<&VerifyConfig::logits>(),
             "Compare the bits of all rows of logits too. The first rows that differ are computed "
             "again, alone, to show by how much. On a CPU only.",
             "For finding a difference before it changes a token."),
    flag_row(Group::kComparison, "output", field_of<&VerifyConfig::output, Kind::kPath>(),
             "The file for one line of JSON per difference and a last line with all counts; - is "
             "standard output.",
             "For seeing more than the first differences.",
             {.not_empty = "a file, or -", .value = "FILE|-"}),
};

constexpr std::string_view kWhole = "both configurations run the whole file; leave it out";
constexpr std::string_view kNoRecords = "no records are written; leave it out";

constexpr UnusedSetting kUnusedInVerify[] = {
    {"order", "differences are told in the order of the input; leave it out"},
    {"resume", kWhole},
    {"retry_errors", kWhole},
    {"keep_jsonl", kNoRecords},
    {"errors", "the runs of verify have no output; leave it out"},
    {"exit_zero_on_error_records", "code 2 tells of differences; leave it out"},
    {"sync_every", kNoRecords},
    {"keep", kNoRecords},
    {"token_ids", kNoRecords},
    {"record_timing", kNoRecords},
    {"served_model_name", kNoRecords},
    {"profile", "use pagedinfer run, once for each configuration"},
};

// Whether the two configurations may differ in a setting. They may not if the setting changes the
// requests or what is done with the answers.
bool may_differ(const Setting& setting) {
  constexpr std::array kOfRequests = {std::string_view("chat_template"),
                                      std::string_view("chat_date"),
                                      std::string_view("served_model_name")};
  if (setting.group == Group::kJob || setting.group == Group::kForm ||
      setting.group == Group::kSampling) {
    return false;
  }
  return std::ranges::find(kOfRequests, setting.key) == kOfRequests.end();
}

}  // namespace

std::span<const FlagOf<VerifyConfig>> verify_flags() { return kVerifyFlags; }

std::span<const UnusedSetting> unused_in_verify() { return kUnusedInVerify; }

void read_sides(const CommandLine& line, VerifyConfig& verify) {
  constexpr VariantRules kRules = {
      .may_differ = may_differ,
      .why_not =
          "both configurations answer the same requests, and their answers go nowhere else; "
          "configurations differ in flags of model, device, cache and scheduling",
      .help = "pagedinfer verify --help"};
  verify.a = line.read_variant("--a", verify.a.flags, verify.config, kRules);
  verify.b = line.read_variant("--b", verify.b.flags, verify.config, kRules);
}

}  // namespace pagedinfer
