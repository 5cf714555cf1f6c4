// What a model's authors say in generation_config.json: done as transformers does it
// (tools/goldens/make_generation_goldens.py), or said.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <string>

#include "core/error.h"
#include "load/sampling_defaults.h"
#include "model/model.h"
#include "settings/values.h"
#include "tests/support/e2e.h"
#include "tests/support/paths.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// The bundled model with another generation_config.json.
std::string model_with(const TempDir& dir, const std::string& generation) {
  const std::string model = dir / "model";
  if (!std::filesystem::exists(model)) std::filesystem::copy(bundled_model(), model);
  write_file(model + "/generation_config.json", generation);
  return model;
}

GivenSampling flag(std::string_view key, std::string_view text) {
  Config config;
  give(key, text, config);
  return config.sampling;
}

// What is said of a tiny model with such a file, all in one.
std::string notes_on(const std::string& generation, const GivenSampling& flags = {}) {
  const TinyModel files;
  write_file(files.dir() + "/generation_config.json", generation);
  std::string all;
  for (const std::string& note :
       generation_notes(flags, open_model(files.dir()).generation, true)) {
    all += note + "\n";
  }
  return all;
}

}  // namespace

TEST_CASE("completions by generation_config.json are the reference's") {
  const TempDir dir;
  int num_records = 0, num_completions = 0;
  for (const Json& record : json_file(source_dir() + "/tests/data/story-llama/generation.jsonl")) {
    const std::string generation = record["/generation_config"];
    CAPTURE(generation);
    std::string lines;
    int count = 0;
    for (; record.has(fmt::format("/completions/{}", count)); ++count) {
      const std::string at = fmt::format("/completions/{}", count);
      lines += fmt::format(R"({{"prompt": {}, "max_tokens": {}}})", record[at + "/prompt"],
                           record[at + "/max_tokens"]) +
               "\n";
    }
    const Answers found = answer(lines, {"--model", model_with(dir, generation), "--dtype",
                                         "float32", "--token-ids", "--quiet"});
    REQUIRE_MESSAGE(found.exit_code == 0, found.err);
    REQUIRE(static_cast<int>(found.records.size()) == count);
    for (int i = 0; i < count; ++i) {
      const std::string at = fmt::format("/completions/{}", i);
      const Json& answer = found.records[static_cast<size_t>(i)];
      CHECK(answer.integer("/prompt_tokens") == record.integer(at + "/prompt_tokens"));
      CHECK(answer.integers("/token_ids") == record.integers(at + "/token_ids"));
    }
    ++num_records;
    num_completions += count;
  }
  CHECK(num_records >= 16);
  CHECK(num_completions >= 150);
}

TEST_CASE("a line and a flag replace the model's least length and stop strings") {
  const TempDir dir;
  const std::string model =
      model_with(dir, R"({"eos_token_id": 2, "min_new_tokens": 9, "stop_strings": [" "]})");
  const auto tokens = [&](const std::string& fields, const Words& flags) {
    const Answers found = answer(
        R"({"prompt": "Question: What is 3 + 4?\nAnswer:", "max_tokens": 20)" + fields + "}\n",
        Words{"--model", model} + flags);
    REQUIRE_MESSAGE(found.exit_code == 0, found.err);
    return found.records[0].integer("/completion_tokens");
  };
  CHECK(tokens("", {}) == 1);  // the model's least length holds no stop string back
  CHECK(tokens(R"(, "stop": [])", {}) >= 9);
  CHECK(tokens(R"(, "stop": ["nowhere"])", {}) >= 9);
  CHECK(tokens(R"(, "min_tokens": 9)", {}) >= 9);
  CHECK(tokens("", {"--min-tokens", "9"}) >= 9);
  CHECK(tokens(R"(, "max_tokens": 4, "stop": [])", {}) == 4);  // a default, not a fault of the line
  CHECK(tokens(R"(, "min_tokens": 0, "stop": [])", {}) == 3);
  CHECK(tokens(R"(, "min_tokens": 0)", {}) == 1);
  CHECK(tokens("", {"--min-tokens", "0"}) == 1);
  CHECK(tokens("", {"--min-tokens", "0", "--stop", "nowhere"}) == 3);
}

TEST_CASE("a line whose allowed tokens are all banned is answered with an error that says so") {
  const TempDir dir;
  const auto error_of = [&](const std::string& generation, const std::string& fields) {
    const Answers found =
        answer(R"({"prompt": "Once upon a time", "max_tokens": 3)" + fields + "}\n",
               {"--model", model_with(dir, generation)});
    REQUIRE(found.records.size() == 1);
    const Json& record = found.records[0];
    if (!record.has("/error/code")) return std::string();
    CHECK(record.text("/error/message").find("allowed_token_ids: found no token") == 0);
    return record.text("/error/code");
  };
  const char* banning = R"({"eos_token_id": 2, "suppress_tokens": [5, 6],
                            "begin_suppress_tokens": [7], "bad_words_ids": [[8]]})";
  CHECK(error_of(banning, R"(, "allowed_token_ids": [5])") == "invalid_value");
  CHECK(error_of(banning, R"(, "allowed_token_ids": [8, 7, 6, 5])") == "invalid_value");
  CHECK(error_of(banning, R"(, "allowed_token_ids": [2], "min_tokens": 1)") == "invalid_value");
  CHECK(
      error_of(banning, R"(, "allowed_token_ids": [9], "stop_token_ids": [9], "min_tokens": 1)") ==
      "invalid_value");
  CHECK(error_of(banning, R"(, "allowed_token_ids": [5, 9])") == "");
  CHECK(error_of(banning, R"(, "allowed_token_ids": [2])") == "");
  CHECK(error_of(banning, R"(, "allowed_token_ids": [2], "min_tokens": 1, "ignore_eos": true)") ==
        "");
  const char* floor = R"({"eos_token_id": 2, "min_new_tokens": 1})";
  CHECK(error_of(floor, R"(, "allowed_token_ids": [2])") == "invalid_value");
  CHECK(error_of(floor, R"(, "allowed_token_ids": [2], "min_tokens": 0)") == "");
  const char* forced = R"({"eos_token_id": 2, "suppress_tokens": [5], "forced_eos_token_id": 2})";
  CHECK(error_of(forced, R"(, "allowed_token_ids": [5])") == "invalid_value");
  CHECK(error_of(forced, R"(, "allowed_token_ids": [5], "max_tokens": 1)") == "");
}

TEST_CASE("a line that bans every token is answered with an error that says so") {
  const TempDir dir;
  const std::string model = model_with(dir, R"({"eos_token_id": 2, "suppress_tokens": [5, 6]})");
  const auto ids_without = [](std::set<int> left_out) {
    std::string ids;
    for (int id = 0; id < 1024; ++id) {
      if (!left_out.contains(id)) ids += fmt::format("{}{}", ids.empty() ? "" : ",", id);
    }
    return "[" + ids + "]";
  };
  const auto error_of = [&](const std::set<int>& no_stop, const std::string& fields) {
    const Answers found = answer(R"({"prompt": "Zoe", "max_tokens": 3, "stop_token_ids": )" +
                                     ids_without(no_stop) + fields + "}\n",
                                 {"--model", model});
    REQUIRE(found.records.size() == 1);
    const Json& record = found.records[0];
    if (!record.has("/error/code")) return std::string();
    CHECK(record.text("/error/message").find("stop_token_ids: found no token") == 0);
    CHECK(record.text("/error/message").find("(min_tokens)") != std::string::npos);
    return record.text("/error/code");
  };
  const std::string least = R"(, "min_tokens": 2)";
  CHECK(error_of({}, least) == "invalid_value");
  CHECK(error_of({}, least + R"(, "temperature": 1, "n": 2)") == "invalid_value");
  CHECK(error_of({}, least + R"(, "ignore_eos": true)") == "invalid_value");
  CHECK(error_of({2, 5, 6}, least) == "invalid_value");
  CHECK(error_of({2, 5, 6}, least + R"(, "ignore_eos": true)") == "");
  CHECK(error_of({7}, least) == "");
  CHECK(error_of({}, "") == "");
}

TEST_CASE("what a forced end cuts short ended by its length") {
  const TempDir dir;
  const std::string model = model_with(dir, R"({"eos_token_id": 2, "forced_eos_token_id": 2})");
  const auto run_with = [&](const std::string& fields) {
    Answers found = answer(R"({"prompt": "Once upon a time", )" + fields + "}\n",
                           {"--model", model, "--token-ids"});
    REQUIRE_MESSAGE(found.exit_code == 0, found.err);
    return std::move(found.records[0]);
  };
  const Json cut = run_with(R"("max_tokens": 4)");
  CHECK(cut.text("/finish_reason") == "length");
  CHECK(cut.integers("/token_ids").back() == 2);
  CHECK(cut.integers("/token_ids").size() == 4);
  CHECK(run_with(R"("max_tokens": 4, "ignore_eos": true)").integers("/token_ids").back() != 2);
}

TEST_CASE("what generation_config.json asks for and is not done is named, and no more") {
  for (const char* asked : {R"("no_repeat_ngram_size": 3)",
                            R"("encoder_no_repeat_ngram_size": 2)",
                            R"("encoder_repetition_penalty": 1.2)",
                            R"("sequence_bias": [[[5, 6], -1.0]])",
                            R"("exponential_decay_length_penalty": [5, 1.1])",
                            R"("num_beams": 4)",
                            R"("num_beam_groups": 2)",
                            R"("diversity_penalty": 0.5)",
                            R"("guidance_scale": 1.5)",
                            R"("typical_p": 0.9)",
                            R"("epsilon_cutoff": 0.0003)",
                            R"("eta_cutoff": 0.0003)",
                            R"("top_h": 0.4)",
                            R"("penalty_alpha": 0.6)",
                            R"("forced_bos_token_id": 3)",
                            R"("num_return_sequences": 2)",
                            R"("dola_layers": "high")",
                            R"("token_healing": true)",
                            R"("watermarking_config": {"bias": 2.5})",
                            R"("max_time": 3.5)",
                            R"("bad_words_ids": [[5], [6, 7]])"}) {
    CAPTURE(asked);
    const std::string name = std::string(asked).substr(1, std::string(asked).find('"', 1) - 1);
    const std::string said = notes_on(fmt::format("{{{}}}", asked));
    CHECK(said.find("generation_config.json asks for " + name) == 0);
  }
  CHECK(notes_on(R"({"num_beams": 4, "typical_p": 0.9})").find("num_beams 4, typical_p 0.9") !=
        std::string::npos);
  // As transformers writes what asks for nothing.
  CHECK(notes_on(
            R"({"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0, "use_cache": true,
      "num_beams": 1, "num_beam_groups": 1, "num_return_sequences": 1, "typical_p": 1.0,
      "diversity_penalty": 0.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0, "guidance_scale": null,
      "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "length_penalty": 1.0,
      "encoder_no_repeat_ngram_size": 0, "sequence_bias": null, "early_stopping": false,
      "token_healing": false, "bad_words_ids": [[5]], "suppress_tokens": [4], "top_k": 50,
      "output_scores": false, "renormalize_logits": false, "transformers_version": "4.30.0"})") ==
        "");
}

TEST_CASE("a model that samples without top_k is said to be another one in transformers") {
  const std::string said = "transformers would filter with top_k 50; --top-k 50 does the same";
  const auto says = [&](const char* generation, const GivenSampling& flags = {}) {
    return notes_on(generation, flags).find(said) != std::string::npos;
  };
  CHECK(says(R"({"do_sample": true})"));
  CHECK(says(R"({"do_sample": true, "top_k": null})"));
  CHECK_FALSE(says("{}"));
  CHECK_FALSE(says(R"({"do_sample": false, "temperature": 0.7})"));
  CHECK_FALSE(says(R"({"do_sample": true, "top_k": 20})"));
  CHECK_FALSE(says(R"({"do_sample": true, "top_k": 0})"));
  CHECK_FALSE(says(R"({"do_sample": true})", flag("top_k", "0")));
  CHECK_FALSE(says(R"({"do_sample": true})", flag("temperature", "0")));
}

TEST_CASE("a maximum length in generation_config.json is not used, and said once") {
  const auto says = [&](const char* generation, const GivenSampling& flags = {}) {
    return notes_on(generation, flags).find("--max-tokens changes that") != std::string::npos;
  };
  CHECK(says(R"({"max_new_tokens": 2048})"));
  CHECK(says(R"({"max_length": 4096})"));
  CHECK_FALSE(says(R"({"max_new_tokens": 256, "max_length": 4096})"));
  CHECK_FALSE(says(R"({"max_new_tokens": 2048})", flag("max_tokens", "256")));
}

TEST_CASE("a maximum length in generation_config.json that is none has no note") {
  CHECK(notes_on(R"({"max_length": 4096.0})").find("length of 4096 tokens") != std::string::npos);
  CHECK(notes_on(R"({"max_new_tokens": 2147483647})").find("2147483647") != std::string::npos);
  for (const std::string key : {"max_length", "max_new_tokens"}) {
    for (const std::string length :
         {"1000000000000000019884624838656", "9007199254740993", "1e400", "-1", "0", "4096.5",
          "2147483648", "-Infinity", "NaN", "\"many\"", "true", "[5]", "null"}) {
      const std::string generation = fmt::format(R"({{"{}": {}}})", key, length);
      CAPTURE(generation);
      CHECK(notes_on(generation) == "");
    }
  }
}

TEST_CASE("notes stand on standard error once, and in the summary even of a quiet run") {
  const TempDir dir;
  const std::string model =
      model_with(dir, R"({"do_sample": true, "num_beams": 3, "suppress_tokens": [5, 6]})");
  write_file(dir / "in.jsonl", "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n");
  const auto run_it = [&](const Words& more) {
    return run(Words{"--input", dir / "in.jsonl", "--model", model, "--overwrite"} + more);
  };
  const Ended ended = run_it({});
  CHECK(ended.exit_code == 0);
  for (const char* note : {"note: generation_config.json asks for num_beams 3: ",
                           "note: generation_config.json has do_sample and no top_k: "}) {
    CHECK(ended.err.find(note) != std::string::npos);
    CHECK(ended.err.find(note) == ended.err.rfind(note));
  }
  CHECK(run_it({"--quiet"}).err == last_line(1, 0, std::filesystem::path(model).filename()));
  const Json summary = summary_beside(dir / "in.stats.jsonl");
  CHECK(summary["/notes"].find("num_beams 3") != std::string::npos);
  CHECK(summary["/notes"].find("top_k 50") != std::string::npos);
  CHECK(summary["/config/suppress_tokens"] == "[5,6]");
}

TEST_CASE("tokens in generation_config.json that cannot be are refused by name") {
  const auto refused = [](const std::string& generation) -> std::string {
    const TinyModel files;
    write_file(files.dir() + "/generation_config.json", generation);
    try {
      (void)open_model(files.dir());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused(R"({"forced_eos_token_id": 61})").find("forced_eos_token_id: found 61") !=
        std::string::npos);
  CHECK(refused(R"({"suppress_tokens": 5})").find("suppress_tokens: found 5") != std::string::npos);
  CHECK(refused(R"({"bad_words_ids": [5]})").find("bad_words_ids: found ") != std::string::npos);
  CHECK(refused(R"({"bad_words_ids": [[61]]})").find("bad_words_ids: found ") != std::string::npos);
  CHECK(refused(R"({"stop_strings": [""]})").find("stop_strings: found \"\"") != std::string::npos);
  CHECK(refused(R"({"min_new_tokens": -1})").find("min_new_tokens: found -1") != std::string::npos);
}
