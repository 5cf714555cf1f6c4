// Keys of other programs, unknown keys, and misspelt keys.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "io/line_reader.h"
#include "request/request_keys.h"
#include "request/request_parser.h"
#include "tests/support/e2e.h"
#include "tests/support/support.h"
#include "text/files/make_tokenizer.h"

using namespace pagedinfer;

namespace {

ParsedLine parse_line(RequestParser& parser, std::string line) {
  const size_t size = line.size();
  line.append(static_cast<size_t>(kLinePadding), ' ');
  return parser.parse(std::string_view(line).substr(0, size), 0, 1);
}

ParsedLine parse_with(const std::string& fields) {
  RequestParser parser({});
  return parse_line(parser, R"({"prompt": "x", )" + fields + "}");
}

}  // namespace

TEST_CASE("one edit is a letter added, left out, changed or swapped with its neighbour") {
  for (const char* near : {"max_token", "max_tokenss", "max_tokenz", "max_toknes", "ax_tokens",
                           "amx_tokens", "Max_tokens", "max-tokens"}) {
    CHECK_MESSAGE(is_one_edit_away(near, "max_tokens"), near);
    CHECK_MESSAGE(is_one_edit_away("max_tokens", near), near);
  }
  for (const char* far : {"max_tokens", "max_tok", "tokens", "max_nekots", "Max_Tokens", ""}) {
    CHECK_FALSE_MESSAGE(is_one_edit_away(far, "max_tokens"), far);
  }
  CHECK(is_one_edit_away("", "a"));
  CHECK_FALSE(is_one_edit_away("ab", "cd"));
}

TEST_CASE("a key that is nearly right is named with the right one") {
  const auto hint = [](const std::string& fields) {
    const ParsedLine line = parse_with(fields);
    CHECK_FALSE(line.failed());
    return line.hints.empty() ? "" : line.hints[0].key + " " + line.hints[0].similar;
  };
  CHECK(hint(R"("max_token": 1)") == "max_token max_tokens");
  CHECK(hint(R"("temperatur": 1)") == "temperatur temperature");
  CHECK(hint(R"("topk": 1)") == "topk top_k");
  CHECK(hint(R"("TopK": 1)") == "TopK top_k");
  CHECK(hint(R"("top-p": 1)") == "top-p top_p");
  CHECK(hint(R"("maxTokens": 1)") == "maxTokens max_tokens");
  CHECK(hint(R"("Repetition-Penalty": 1)") == "Repetition-Penalty repetition_penalty");
  CHECK(hint(R"("top": 1)") == "");
  CHECK(hint(R"("Id": 1)") == "");
  CHECK(hint(R"("ids": 1)") == "");         // so short a name is near to many
  CHECK(hint(R"("grammer": null)") == "");  // what is not supported is no help
  RequestParser renamed({}, {.names = {"question"}});
  const ParsedLine line = parse_line(renamed, R"({"question": "x", "questions": 1, "promt": 2})");
  REQUIRE(line.hints.size() == 1);
  CHECK(line.hints[0].similar == "question");
  RequestParser parser({});
  const ParsedLine batch =
      parse_line(parser,
                 R"({"custom_id": "a", "url": "/v1/completions", "max_tokens": 5,
                                     "body": {"prompt": "x", "seeed": 5}})");
  CHECK_FALSE(batch.failed());
  REQUIRE(batch.hints.size() == 2);
  CHECK(batch.hints[0].similar == "body.max_tokens");
  CHECK(batch.hints[1].similar == "seed");
}

TEST_CASE("a strict parser refuses an unknown key, anywhere in a line") {
  RequestParser strict({}, {.strict = true});
  const auto error = [&](const std::string& line) {
    const ParsedLine parsed = parse_line(strict, line);
    return fmt::format("{}: {}", parsed.error.code.name(), parsed.error.message);
  };
  CHECK(error(R"({"prompt": "x", "max_token": 4})") ==
        "unknown_key: \"max_token\": unknown key; did you mean max_tokens?");
  CHECK(error(R"({"id": 5, "prompt": "x", "answer": 4})") ==
        "unknown_key: \"answer\": unknown key");
  CHECK(error(R"({"custom_id": "a", "url": "/v1/completions", "seed": 5,
                  "body": {"prompt": "x"}})")
            .find("did you mean body.seed?") != std::string::npos);
  CHECK(error(R"({"custom_id": "a", "url": "/v1/completions", "body": {"prompt": "x", "z": 1}})")
            .find("unknown_key: \"z\"") == 0);
  CHECK(error(R"({"messages": [{"role": "user", "content": "x", "mood": 1}]})")
            .find("unknown_key: \"mood\"") == 0);
  CHECK(parse_line(strict, R"({"id": 5, "prompt": "x", "answer": 4})").request.head.id_json == "5");
  for (const char* good : {R"({"id": 1, "prompt": "x", "max_tokens": 4, "cache_salt": "a"})",
                           R"({"custom_id": "a", "url": "/v1/completions",
            "body": {"prompt": "x", "model": "m", "metadata": {"a": 1}, "user": "u"}})",
                           R"({"messages": [{"role": "user", "content": "x", "name": "n"}]})"}) {
    CHECK_MESSAGE(error(good) == ": ", good);
  }
}

TEST_CASE("a key of another program is refused with the name of the key to use") {
  struct Case {
    const char *fields, *said;
  };
  for (const Case& c : {Case{R"("n_predict": 5)", "use max_tokens"},
                        {R"("max_new_tokens": 1)", "use max_tokens"},
                        {R"("repeat_penalty": 1.1)", "use repetition_penalty"},
                        {R"("stop_sequences": ["a"])", "use stop"},
                        {R"("do_sample": false)", "use temperature"},
                        {R"("temp": 0)", "use temperature"},
                        {R"("add_bos_token": false)", "use add_special_tokens"},
                        {R"("eos_token_id": 5)", "use stop_token_ids"},
                        {R"("grammar": "root ::= x")", "use guided_grammar"},
                        {R"("json_schema": {"type": "object"})", "use guided_json"},
                        {R"("num_beams": 4)", "use beam_width"},
                        {R"("n_probs": 1)", "use logprobs"},
                        {R"("function_call": "auto")", "does not support it"},
                        {R"("bad_words": ["x"])", "does not support it"},
                        {R"("logits_processors": ["x"])", "does not support it"}}) {
    CAPTURE(c.fields);
    const ParsedLine line = parse_with(c.fields);
    CHECK(line.error.code == "unsupported");
    CHECK(line.error.message.find(c.said) != std::string::npos);
  }
  for (const char* neutral :
       {R"("repeat_penalty": 1.0)", R"("grammar": "")", R"("json_schema": {})", R"("n_probs": 0)",
        R"("num_beams": 1)", R"("do_sample": null)", R"("bad_words": [])", R"("functions": null)",
        R"("function_call": "none")", R"("cache_prompt": true)", R"("min_length": 0)",
        R"("min_length": -1)", R"("detokenize": true)", R"("add_bos_token": true)",
        R"("return_full_text": false)", R"("parallel_tool_calls": true)",
        R"("parallel_tool_calls": false)"}) {
    CHECK_MESSAGE(!parse_with(neutral).failed(), neutral);
  }
}

TEST_CASE("a name that no table has is an unknown key, and no flag of another program a key") {
  RequestParser strict({}, {.strict = true});
  for (const char* name : {"mirostat", "xtc_probability", "max_num_seqs", "output_file"}) {
    const std::string line = fmt::format(R"({{"prompt": "x", "{}": 2}})", name);
    CHECK(parse_line(strict, line).error.code == "unknown_key");
  }
}

TEST_CASE("an object of settings is refused, and another value of its key is unknown") {
  RequestParser strict({}, {.strict = true});
  for (const std::string name :
       {"extra_body", "sampling_params", "parameters", "options", "generation_config"}) {
    CAPTURE(name);
    const auto with = [&](const std::string& value) {
      return fmt::format(R"({{"prompt": "x", "{}": {}}})", name, value);
    };
    const ParsedLine line = parse_line(strict, with(R"({"temperature": 0.5})"));
    CHECK(line.error.code == "unsupported");
    const std::string said = "found an object; this version does not support it, put its keys into";
    CHECK(line.error.message == fmt::format("{}: {} the line", name, said));
    const ParsedLine batch = parse_line(
        strict, fmt::format(R"({{"custom_id": "a", "url": "/v1/completions", "body": {}}})",
                            with(R"({"temperature": 0.5})")));
    CHECK(batch.error.message == fmt::format("body.{}: {} the body", name, said));
    for (const char* nothing : {"{}", "null"}) {
      CHECK_FALSE(parse_line(strict, with(nothing)).failed());
    }
    for (const char* other : {"[\"a\", \"b\"]", "\"a\"", "5", "false"}) {
      CHECK(parse_line(strict, with(other)).error.code == "unknown_key");
      RequestParser parser({});
      CHECK_FALSE(parse_line(parser, with(other)).failed());
      CHECK(parser.take_unknown_keys().count(name) == 1);
    }
    RequestParser renamed({}, {.names = {name}});
    CHECK(parse_line(renamed, fmt::format(R"({{"{}": "hello"}})", name)).request.prompt == "hello");
  }
}

TEST_CASE("values of the prompt's and the text's keys are read, and judged") {
  const ParsedLine line = parse_with(
      R"("truncate_prompt_tokens": -1, "add_special_tokens": false, "allowed_token_ids": [5, 3],
         "include_stop_str_in_output": true, "skip_special_tokens": false)");
  CHECK_FALSE(line.failed());
  CHECK(line.request.truncate_prompt_tokens == -1);
  CHECK(line.request.add_special_tokens == false);
  CHECK(line.request.sampling.allowed_token_ids == std::vector<TokenId>{5, 3});
  CHECK(line.request.sampling.keep_stop);
  CHECK_FALSE(line.request.sampling.skip_special);
  const ParsedLine silent = parse_with(R"("skip_special_tokens": null)");
  CHECK_FALSE(silent.request.add_special_tokens.has_value());
  CHECK_FALSE(silent.request.truncate_prompt_tokens.has_value());
  CHECK(silent.request.sampling.skip_special);
  for (const char* bad :
       {R"("truncate_prompt_tokens": 0)", R"("truncate_prompt_tokens": -2)",
        R"("truncate_prompt_tokens": "5")", R"("truncate_prompt_tokens": 3000000000)",
        R"("add_special_tokens": 1)", R"("allowed_token_ids": [])", R"("allowed_token_ids": [-1])",
        R"("allowed_token_ids": 5)", R"("include_stop_str_in_output": "yes")",
        R"("skip_special_tokens": 0)"}) {
    CHECK_MESSAGE(parse_with(bad).error.code == "invalid_value", bad);
  }
}

namespace {

constexpr const char* kQuestion = R"("prompt": "Question: What is 3 + 4?\nAnswer:")";

Json completed(const std::string& fields) {
  Answers found = answer("{" + fields + "}\n", {"--token-ids"});
  CAPTURE(found.out);
  REQUIRE_MESSAGE(found.exit_code == 0, found.err);
  return std::move(found.records[0]);
}

}  // namespace

TEST_CASE("only allowed tokens are drawn, in both forms of line") {
  const std::string body = R"("prompt": "Once upon a time", "max_tokens": 9, "temperature": 3,
      "allowed_token_ids": [70, 60])";
  std::string one_line = body;
  one_line.erase(one_line.find('\n'), 1);
  const Json plain = completed(one_line);
  const Json batch =
      completed(R"("custom_id": "a", "url": "/v1/completions", "body": {)" + one_line + "}");
  for (const Json* record : {&plain, &batch}) {
    const auto ids = record->integers("/token_ids");
    CHECK(ids.size() == 9);
    for (const int64_t id : ids) CHECK((id == 60 || id == 70));
  }
  CHECK(answer("{" + one_line + "}\n").records[0].integer("/completion_tokens") == 9);
  const Answers wrong = answer("{\"prompt\": \"x\", \"allowed_token_ids\": [70000]}\n");
  CHECK(wrong.records[0].text("/error/code") == "unknown_token_id");
}

TEST_CASE("truncation keeps the end of a prompt, and the tokens around a text") {
  const std::string rest = R"(, "id": 1, "max_tokens": 5, "ignore_eos": true)";
  const std::vector<TokenId> all = make_tokenizer(bundled_model())->encode("Once upon a time");
  const auto of_ids = [&](std::vector<TokenId> ids, const std::string& more = "") {
    return completed(fmt::format(R"("prompt_token_ids": [{}])", fmt::join(ids, ",")) + more + rest);
  };
  const Json text =
      completed(R"("prompt": "Once upon a time", "truncate_prompt_tokens": 4)" + rest);
  CHECK(text.integer("/prompt_tokens") == 4);
  CHECK(text["/token_ids"] ==
        of_ids({all[0], *(all.end() - 3), *(all.end() - 2), all.back()})["/token_ids"]);
  const Json ids = of_ids(all, R"(, "truncate_prompt_tokens": 3)");
  CHECK(ids.integer("/prompt_tokens") == 3);
  CHECK(ids["/token_ids"] == of_ids({all.end() - 3, all.end()})["/token_ids"]);
  CHECK(of_ids(all, R"(, "truncate_prompt_tokens": 300)")["/token_ids"] ==
        of_ids(all)["/token_ids"]);
  std::string words;
  for (int i = 0; i < 900; ++i) words += "a time ";
  const Answers longest = answer(
      R"({"max_tokens": 5, "prompt": ")" + words + R"(", "truncate_prompt_tokens": -1})" + "\n",
      {"--max-model-len", "200"});
  CHECK(longest.records[0].integer("/prompt_tokens") == 199);
}

TEST_CASE("special tokens are around a prompt or not, and in the text or not") {
  const std::string rest = R"(, "id": 1, "max_tokens": 20)";
  const Json with = completed(kQuestion + rest);
  CHECK(with.text("/text") == " 7");
  const Json without = completed(kQuestion + rest + R"(, "add_special_tokens": false)");
  CHECK(without.integer("/prompt_tokens") == with.integer("/prompt_tokens") - 1);
  const Json kept = completed(kQuestion + rest + R"(, "include_stop_str_in_output": true)");
  CHECK(kept.text("/text") == " 7");
  const Json shown = completed(kQuestion + rest + R"(, "include_stop_str_in_output": true,)" +
                               R"( "skip_special_tokens": false)");
  CHECK(shown.text("/text") == " 7</s>");
  CHECK(shown["/token_ids"] == with["/token_ids"]);
  CHECK(completed(kQuestion + rest + R"(, "skip_special_tokens": false)").text("/text") == " 7");
  const Json on =
      completed(kQuestion + rest + R"(, "skip_special_tokens": false,)" + R"( "ignore_eos": true)");
  CHECK(on.text("/text").find(" 7</s>") == 0);
}

TEST_CASE("a stop string stays in the text where a line wants it") {
  const std::string rest =
      R"("prompt": "Once upon a time", "max_tokens": 30, "stop": ["ere", "e"])";
  const std::string cut = completed(rest).text("/text");
  const std::string kept =
      completed(rest + R"(, "include_stop_str_in_output": true)").text("/text");
  CHECK((kept == cut + "e" || kept == cut + "ere"));
}

TEST_CASE("a key that is nearly right is named at its first line, and unknown ones at the end") {
  const TempDir dir;
  write_file(dir / "in.jsonl",
             "{\"prompt\": \"Hi\", \"max_tokens\": 2}\n"
             "{\"prompt\": \"Hi\", \"max_tokens\": 2, \"top_kk\": 3, \"answer\": 5}\n"
             "{\"prompt\": \"Hi\", \"max_tokens\": 2, \"top_kk\": 3}\n");
  const auto run_it = [&](const Words& more) {
    return run(Words{"--input", dir / "in.jsonl", "--overwrite"} + more);
  };
  const std::string hint = "line 2: \"top_kk\": did you mean top_k?";
  const std::string list = "ignored unknown keys: \"answer\" (1), \"top_kk\" (2)";
  const Ended ended = run_it({});
  CHECK(ended.exit_code == 0);
  CHECK(ended.err.find("note: " + hint + "\n") != std::string::npos);
  CHECK(ended.err.find(hint) == ended.err.rfind(hint));
  CHECK(ended.err.find("note: " + list + "\n") != std::string::npos);
  CHECK(run_it({"--quiet"}).err == "note: " + hint + "\n" + last_line(3));
  const Json summary = summary_beside(dir / "in.stats.jsonl");
  CHECK(summary.text("/notes/0") == hint);
  CHECK(summary.text("/notes/1") == list);
  CHECK(summary["/config/strict"] == "false");
  const Ended strict = run_it({"--strict"});
  CHECK(strict.exit_code == 2);
  const auto records = json_file(dir / "in.completions.jsonl");
  CHECK(records[0].has("/text"));
  CHECK(records[1].text("/error/code") == "unknown_key");
  CHECK(records[2].text("/error/code") == "unknown_key");
  CHECK(summary_beside(dir / "in.stats.jsonl")["/config/strict"] == "true");
  const Ended lenient = run({"--input", dir / "in.jsonl", "--resume"});
  CHECK(lenient.exit_code == 1);
  CHECK(lenient.err.find("strict = on, found off") != std::string::npos);
}
