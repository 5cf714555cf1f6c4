// Names in vLLM, llama.cpp and transformers for our settings.
#pragma once

#include <cstdint>
#include <string_view>

namespace pagedinfer {

// Which values of a foreign key change nothing, so that the key can be ignored. A null always
// changes nothing.
enum class Neutral : uint8_t {
  kEmpty,  // false, "none", an empty text, list or object
  kZero,   // the same, and a number of 0 or less
  kOne,    // the same as kEmpty, and 1
  kTrue,   // true alone
  kNever   // no value
};

struct ForeignName {
  std::string_view name;
  std::string_view ours;              // our key, or our flag if it begins with "--"
  Neutral neutral = Neutral::kEmpty;  // of a key
  bool flag_only = false;             // no program has it as a key of a line
};

inline constexpr ForeignName kForeignNames[] = {
    {"add_bos_token", "add_special_tokens", Neutral::kTrue},
    {"cache_type_k", "--kv-dtype", {}, true},
    {"chat_template", "--chat-template"},
    {"ctx_size", "--max-model-len", {}, true},
    {"detokenize", "--token-ids", Neutral::kTrue},
    {"do_sample", "temperature", Neutral::kNever},
    {"ebnf", "guided_grammar"},
    {"enable_chunked_prefill", "--chunked-prefill", {}, true},
    {"enable_prefix_caching", "--prefix-cache", {}, true},
    {"eos_token_id", "stop_token_ids"},
    {"grammar", "guided_grammar"},
    {"guided_whitespace_pattern", "--json-whitespace"},
    {"json_schema", "guided_json"},
    {"kv_cache_dtype", "--kv-dtype", {}, true},
    {"max_length", "max_tokens"},
    {"max_new_tokens", "max_tokens"},
    {"max_num_batched_tokens", "--max-step-tokens", {}, true},
    {"max_num_seqs", "--max-batch-size", {}, true},
    {"max_output_tokens", "max_tokens"},
    {"min_length", "min_tokens", Neutral::kZero},
    {"min_new_tokens", "min_tokens", Neutral::kZero},
    {"n_predict", "max_tokens"},
    {"n_probs", "logprobs", Neutral::kZero},
    {"no_stop_trim", "include_stop_str_in_output"},
    {"num_beams", "beam_width", Neutral::kOne},
    {"num_gpu_blocks_override", "--num-blocks", {}, true},
    {"num_predict", "max_tokens"},
    {"num_return_sequences", "n", Neutral::kOne},
    {"output_file", "--output", {}, true},
    {"regex", "guided_regex"},
    {"repeat_penalty", "repetition_penalty", Neutral::kOne},
    {"return_full_text", "echo"},
    {"return_token_ids", "--token-ids"},
    {"return_tokens_as_token_ids", "--token-ids"},
    {"sequence_bias", "logit_bias"},
    {"stop_sequences", "stop"},
    {"stop_strings", "stop"},
    {"temp", "temperature", Neutral::kNever},
    {"top_n_tokens", "logprobs", Neutral::kZero},
    {"use_beam_search", "beam_width"},
};

}  // namespace pagedinfer
