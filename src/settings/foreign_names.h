// Names for our settings in vLLM, SGLang, TGI, llama.cpp and transformers.
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
  std::string_view name;              // a single letter is a flag with one dash
  std::string_view ours;              // our key, or our flag if it begins with "--"
  Neutral neutral = Neutral::kEmpty;  // of a key
  bool flag_only = false;             // no program has it as a key of a line
};

inline constexpr ForeignName kForeignNames[] = {
    {"adapter", "--lora", {}, true},
    {"add_bos_token", "add_special_tokens", Neutral::kTrue},
    {"b", "--max-step-tokens", {}, true},
    {"batch_size", "--max-batch-size", {}, true},
    {"c", "--max-model-len", {}, true},
    {"cache_type_k", "--kv-dtype", {}, true},
    {"cache_type_v", "--kv-dtype", {}, true},
    {"chat_template", "--chat-template"},
    {"chat_template_file", "--chat-template", {}, true},
    {"chunked_prefill_size", "--prefill-chunk-size", {}, true},
    {"context_length", "--max-model-len", {}, true},
    {"ctx_size", "--max-model-len", {}, true},
    {"detokenize", "--token-ids", Neutral::kTrue},
    {"do_sample", "temperature", Neutral::kNever},
    {"ebnf", "guided_grammar"},
    {"enable_chunked_prefill", "--chunked-prefill", {}, true},
    {"enable_prefix_caching", "--prefix-cache", {}, true},
    {"eos_token_id", "stop_token_ids"},
    {"f", "--input", {}, true},
    {"file", "--input", {}, true},
    {"gpu_layers", "--device", {}, true},
    {"grammar", "guided_grammar"},
    {"grammar_file", "--grammar", {}, true},
    {"guided_whitespace_pattern", "--json-whitespace"},
    {"input_file", "--input", {}, true},
    {"json_schema", "guided_json"},
    {"json_schema_file", "--json-schema", {}, true},
    {"kv_cache_dtype", "--kv-dtype", {}, true},
    {"kv_cache_memory_bytes", "--kv-memory", {}, true},
    {"load_format", "--weights", {}, true},
    {"lora_path", "--lora", {}, true},
    {"m", "--model", {}, true},
    {"max_batch_prefill_tokens", "--max-step-tokens", {}, true},
    {"max_concurrent_requests", "--max-batch-size", {}, true},
    {"max_input_length", "--max-model-len", {}, true},
    {"max_length", "max_tokens"},
    {"max_new_tokens", "max_tokens"},
    {"max_num_batched_tokens", "--max-step-tokens", {}, true},
    {"max_num_seqs", "--max-batch-size", {}, true},
    {"max_output_tokens", "max_tokens"},
    {"max_running_requests", "--max-batch-size", {}, true},
    {"max_seq_len", "--max-model-len", {}, true},
    {"max_seq_length", "--max-model-len", {}, true},
    {"max_total_tokens", "--max-model-len", {}, true},
    {"mem_fraction_static", "--gpu-memory-utilization", {}, true},
    {"min_length", "min_tokens", Neutral::kZero},
    {"min_new_tokens", "min_tokens", Neutral::kZero},
    {"model_path", "--model", {}, true},
    {"n", "--max-tokens", {}, true},
    {"n_gpu_layers", "--device", {}, true},
    {"n_predict", "max_tokens"},
    {"n_probs", "logprobs", Neutral::kZero},
    {"no_stop_trim", "include_stop_str_in_output"},
    {"num_beams", "beam_width", Neutral::kOne},
    {"num_gpu_blocks_override", "--num-blocks", {}, true},
    {"num_predict", "max_tokens"},
    {"num_return_sequences", "n", Neutral::kOne},
    {"num_threads", "--threads", {}, true},
    {"output_file", "--output", {}, true},
    {"parallel", "--max-batch-size", {}, true},
    {"predict", "--max-tokens", {}, true},
    {"quantization", "--quantize", {}, true},
    {"regex", "guided_regex"},
    {"repeat_penalty", "repetition_penalty", Neutral::kOne},
    {"return_full_text", "echo"},
    {"return_token_ids", "--token-ids"},
    {"return_tokens_as_token_ids", "--token-ids"},
    {"sequence_bias", "logit_bias"},
    {"stop_sequences", "stop"},
    {"stop_strings", "stop"},
    {"system_prompt", "--system", {}, true},
    {"t", "--threads", {}, true},
    {"temp", "temperature", Neutral::kNever},
    {"top_n_tokens", "logprobs", Neutral::kZero},
    {"torch_dtype", "--dtype", {}, true},
    {"use_beam_search", "beam_width"},
};

}  // namespace pagedinfer
