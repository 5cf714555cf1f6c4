// Error records that are computed again under other settings.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

// Lines with unknown keys, conversations, lines without a prompt, a long prompt, and good ones.
std::string lines_of_all_kinds() {
  std::string lines;
  for (int i = 0; i < 6; ++i) {
    lines += R"({"prompt":"Nora has","max_tokens":5,"temperature":1}
{"prompt":"Nora has","max_tokens":4,"temprature":1}
{"messages":[{"role":"user","content":"Nora has 3 apples."}],"max_tokens":6}
{"prompt":"Nora has","max_tokens":3,"n":2,"seed":7}
{}
{"prompt":"Nora has 3 apples. Ben has 4 apples. How many apples do they have?","max_tokens":3}
{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Nora has","max_tokens":4}}
)";
  }
  return lines;
}

std::multiset<std::string> records_of(const std::string& path) {
  std::multiset<std::string> records;
  for (const Json& record : json_file(path)) records.insert(record.line());
  return records;
}

// Runs with `before`, and tries the errors again with `now`. CHECKs that a new run gives the same.
void check_retried(const Words& before, const Words& now) {
  for (const std::string order : {"input", "completion"}) {
    const TempDir dir;
    write_file(dir / "in", lines_of_all_kinds());
    const Words files = {"--input", dir / "in", "--order", order};
    const Words old = files + Words{"--output", dir / "old"};
    CHECK(run(old + before).exit_code == 2);
    const std::string output = read_file(dir / "old"), state = read_file(dir / "old.run");
    CHECK(run(old + now + Words{"--resume"}).exit_code == 1);
    CHECK(read_file(dir / "old") == output);
    CHECK(read_file(dir / "old.run") == state);

    CHECK(run(old + now + Words{"--resume", "--retry-errors"}).exit_code == 2);
    CHECK(run(files + now + Words{"--output", dir / "new"}).exit_code == 2);
    CHECK(read_file(dir / "old") != output);
    if (order == "input") CHECK(read_file(dir / "old") == read_file(dir / "new"));
    CHECK(records_of(dir / "old") == records_of(dir / "new"));
    CHECK(run(old + now + Words{"--resume"}).err.find("nothing new") != std::string::npos);
  }
}

}  // namespace

TEST_CASE("errors are tried again without --strict, as a new run without it writes them") {
  check_retried({"--strict"}, {});
}

TEST_CASE("errors are tried again with a template where there was none, as in a new run") {
  const std::string chatml = source_dir() + "/tests/data/chat/chatml.jinja";
  check_retried({"--chat-template", "none"}, {"--chat-template", chatml});
  check_retried({"--chat-template", "none", "--strict"}, {"--chat-template", chatml});
}

TEST_CASE("errors are tried again with a larger cache, as in a new run") {
  const TempDir dir;
  write_file(dir / "in", lines_of_all_kinds() + R"({"prompt":"Nora has","max_tokens":200})");
  const Words flags = {"--input", dir / "in", "--output", dir / "old", "--block-size", "16"};
  CHECK(run(flags + Words{"--num-blocks", "2"}).err.find("exceeds_cache") != std::string::npos);
  CHECK(run(flags + Words{"--num-blocks", "40", "--resume", "--retry-errors"}).exit_code == 2);
  CHECK(run({"--input", dir / "in", "--output", dir / "new"}).exit_code == 2);
  CHECK(read_file(dir / "old") == read_file(dir / "new"));
}

TEST_CASE("errors are tried again with a larger model length, as in a new run") {
  check_retried({"--max-model-len", "12"}, {"--max-model-len", "13"});
  check_retried({"--max-model-len", "12", "--strict"}, {});
}

TEST_CASE("a retry keeps the model length that may have cut a finished record") {
  const std::string prompt = R"("prompt":"Nora has 3 apples.","max_tokens":)";
  const auto openai = [](const std::string& body) {
    return R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{)" + body + "}}";
  };
  const auto plain = [](const std::string& body) { return "{" + body + "}"; };
  struct Case {
    std::string body, found;
  };
  for (const auto& [body, found] : std::vector<Case>{
           {prompt + "20", "of 16 tokens"},
           {R"("prompt":"Nora has 3 apples. Ben has 4 apples. How many do they have?",)"
            R"("max_tokens":0,"echo":true,"truncate_prompt_tokens":-1)",
            "of 15 tokens"},
           {prompt + R"(2,"n":1,"best_of":6,"temperature":1)", "of 21 tokens"},
           {prompt + R"(2,"beam_width":2)", "of a beam search"},
           {prompt + R"(2,"beam_width":2,"n":2)", "of a beam search"}}) {
    for (const std::string& line : {plain(body), openai(body)}) {
      CAPTURE(line);
      const TempDir dir;
      write_file(dir / "in", lines_of_all_kinds() + line);
      const Words flags = {"--input", dir / "in", "--output", dir / "out"};
      CHECK(run(flags + Words{"--max-model-len", "16"}).exit_code == 2);
      const std::string output = read_file(dir / "out");
      const Ended refused =
          run(flags + Words{"--max-model-len", "17", "--resume", "--retry-errors"});
      CHECK(refused.exit_code == 1);
      CHECK(refused.err.find("/out: line 43: --retry-errors cannot change max_model_len = 16: it "
                             "may have cut this record " +
                             found) != std::string::npos);
      CHECK(read_file(dir / "out") == output);
      CHECK(run(flags + Words{"--max-model-len", "16", "--resume", "--retry-errors"}).exit_code ==
            2);
    }
  }
}

TEST_CASE("a retry names the setting that it cannot change, and why") {
  const TempDir dir;
  write_file(dir / "in", lines_of_all_kinds());
  const Words flags = {"--input", dir / "in", "--output", dir / "out"};
  CHECK(run(flags + Words{"--max-model-len", "64"}).exit_code == 2);
  const std::string output = read_file(dir / "out");
  const auto refusal = [&](const Words& changed) {
    const Ended ended = run(flags + changed + Words{"--resume", "--retry-errors"});
    CHECK(ended.exit_code == 1);
    CHECK(read_file(dir / "out") == output);
    return ended.err;
  };
  CHECK(refusal({"--max-model-len", "32"}).find("--retry-errors cannot change max_model_len: ") !=
        std::string::npos);
  CHECK(refusal({"--max-model-len", "64", "--strict"})
            .find("strict = off, found on; --retry-errors cannot change strict: only from on") !=
        std::string::npos);
  CHECK(refusal({"--max-model-len", "64", "--seed", "5"}).find("finished records may depend") !=
        std::string::npos);
}

}  // namespace pagedinfer
