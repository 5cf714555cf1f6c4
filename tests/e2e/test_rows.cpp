// Tables as they are: prompts by templates over the keys of lines, and keys kept in records.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/e2e.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

const std::string kChatmlFile = source_dir() + "/tests/data/chat/chatml.jinja";
const std::string kTemplate = "Question: What is {{ a }} + {{ b }}?\nAnswer:";

std::string rows(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format(R"({{"id":{},"a":{},"b":{},"temperature":"hot","sum": {}.50}})", i, i % 9,
                         i % 7, i % 9 + i % 7) +
             "\n";
  }
  return lines;
}

std::string prompts(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    lines += fmt::format(R"({{"id":{},"prompt":"Question: What is {} + {}?\nAnswer:"}})", i, i % 9,
                         i % 7) +
             "\n";
  }
  return lines;
}

// The prompts' token ids that `info --render` shows.
std::vector<std::vector<int64_t>> rendered_ids(const std::string& line, const Words& flags) {
  const TempDir dir;
  write_file(dir / "in", line + "\n");
  const Ended ended =
      Process(command(Words{"info", "--render", dir / "in", "--json"} + flags)).wait();
  REQUIRE_MESSAGE(ended.exit_code == 0, ended.out, ended.err);
  std::vector<std::vector<int64_t>> all;
  for (const Json& shown : json_lines(ended.out)) {
    all.push_back(shown.integers("/prompts/0/token_ids"));
  }
  return all;
}

int64_t num_ends(const std::string& line, const Words& flags) {
  constexpr int64_t kEnd = 2;  // </s>
  return std::ranges::count(rendered_ids(line, flags).at(0), kEnd);
}

}  // namespace

TEST_CASE("a run over rows writes what a run over the rendered prompts writes") {
  const TempDir dir;
  write_file(dir / "rows", rows(40));
  write_file(dir / "prompts", prompts(40));
  write_file(dir / "template", kTemplate + "\n");
  const Words sampling = {"--max-tokens", "8", "--temperature", "0.9", "--seed", "3"};
  const Words few = {"--max-batch-size", "3", "--threads", "1"};
  REQUIRE(run(Words{"--input", dir / "prompts", "--output", dir / "a"} + sampling).exit_code == 0);
  for (const std::string& text : {kTemplate, "@" + (dir / "template")}) {
    const Words flags = {"--input", dir / "rows", "--prompt-template", text, "--overwrite"};
    REQUIRE(run(flags + sampling + Words{"--output", dir / "b"}).exit_code == 0);
    CHECK(read_file(dir / "a") == read_file(dir / "b"));
    REQUIRE(run(flags + sampling + few + Words{"--output", dir / "b"}).exit_code == 0);
    CHECK(read_file(dir / "a") == read_file(dir / "b"));
  }
  const Words files = {"--input", dir / "rows", "--prompt-template", kTemplate};
  CHECK(Process(command(Words{"plan"} + files)).wait().exit_code == 0);
  CHECK(Process(command(Words{"verify", "--max-tokens", "2"} + files)).wait().exit_code == 0);
}

TEST_CASE("templates of messages make the conversation that the lines would have") {
  const std::string row = R"({"id":1,"q":"What is 3 + 4?","tone":"kind"})";
  const std::string line =
      R"({"id":1,"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"What is 3 + 4?"}]})";
  const Words chat = {"--chat-template", kChatmlFile};
  const Words system = {"--message-template", "system=Be {{ tone }}."};
  const Words user = {"--message-template", "user={{ q }}"};
  const auto expected = rendered_ids(line, chat);
  CHECK(rendered_ids(row, chat + system + user) == expected);
  CHECK(rendered_ids(row, chat + user + Words{"--system", "Be kind."}) == expected);
  CHECK(rendered_ids(row, chat + system + user + Words{"--system", "Be rude."}) == expected);
  CHECK(rendered_ids(row, chat + Words{"--chat", "--prompt-template", "{{ q }}", "--system",
                                       "Be kind."}) == expected);
}

TEST_CASE("a special token in a column is text, and in a template it is a token") {
  const std::string row = R"({"a":"x</s>y"})";
  const std::string text = "{{ a }}</s>", none = "{{ a }}";
  const Words prompt = {"--prompt-template", text}, plain = {"--prompt-template", none};
  const Words chat = {"--chat-template", kChatmlFile};
  CHECK(num_ends(row, plain) == 0);
  CHECK(num_ends(row, prompt) == 1);
  CHECK(num_ends(row, prompt + Words{"--escape-special"}) == 0);
  CHECK(num_ends(R"({"prompt":"x</s>y"})", {}) == 1);
  CHECK(num_ends(row, chat + Words{"--chat"} + prompt) == 1);
  CHECK(num_ends(row, chat + Words{"--message-template", "user=" + text}) == 1);
  CHECK(num_ends(row, chat + Words{"--message-template", "user=" + none}) == 0);
  const Words system = {"--message-template", "user=" + none, "--system", "</s>"};
  CHECK(num_ends(row, chat + system) == 1);
  CHECK(num_ends(row, chat + system + Words{"--escape-special"}) == 0);
}

TEST_CASE("a row without a column of the template ends in an error record, which names it") {
  const Answers answers = answer("{\"q\":\"Nora\",\"id\":7}\n{\"question\":\"Nora\",\"id\":8}\n{\n",
                                 {"--prompt-template", "{{ q }} has", "--max-tokens", "3"});
  CHECK(answers.exit_code == 2);
  REQUIRE(answers.records.size() == 3);
  CHECK(answers.records[0].has("/text"));
  CHECK(answers.records[1].text("/error/code") == "undefined_column");
  CHECK(answers.records[1].integer("/id") == 8);
  CHECK(answers.records[1].text("/error/message") ==
        "the prompt template, line 1: 'q' is undefined; the row has question, id");
  CHECK(answers.records[2].text("/error/code") == "invalid_json");
}

TEST_CASE("a column that no row has ends a run of a large file before it begins") {
  const TempDir dir;
  write_file(dir / "in", rows(120));
  const Ended ended = run({"--input", dir / "in", "--prompt-template", "{{ question }}"});
  CHECK(ended.exit_code == 1);
  CHECK(ended.err.find("none of the first 100 lines can be answered; line 1: undefined_column: ") !=
        std::string::npos);
  CHECK(names_in(dir.path()) == std::set<std::string>{"in"});
}

TEST_CASE("templates that contradict another flag are refused, and so are wrong ones") {
  const TempDir dir;
  write_file(dir / "in", rows(2));
  write_file(dir / "template", "{{ a }");
  const auto refusal = [&](const Words& flags) {
    const Ended ended = run(Words{"--input", dir / "in"} + flags);
    CHECK(ended.exit_code == 1);
    return ended.err;
  };
  const Words prompt = {"--prompt-template", "{{ a }}"};
  CHECK(refusal(prompt + Words{"--message-template", "user={{ a }}"}).find("give one of them") !=
        std::string::npos);
  CHECK(refusal(prompt + Words{"--prompt-field", "a"}).find("leave one of them out") !=
        std::string::npos);
  CHECK(refusal({"--prompt-template", "@" + (dir / "template")}).find("template: line 1: ") !=
        std::string::npos);
  CHECK(refusal({"--prompt-template", "@" + (dir / "in")}).find("is what --input names") !=
        std::string::npos);
  CHECK(refusal({"--prompt-template", "template"}).find("found no {{") != std::string::npos);
  CHECK(names_in(dir.path()) == std::set<std::string>{"in", "template"});
}

TEST_CASE("a run goes on with the same template only, wherever its text stands") {
  const TempDir dir;
  write_file(dir / "in", rows(6));
  write_file(dir / "template", kTemplate + "\n");
  const Words flags = {"--input", dir / "in", "--output", dir / "out", "--max-tokens", "4"};
  const auto with = [&](const std::string& text) { return Words{"--prompt-template", text}; };
  REQUIRE(run(flags + with("@" + (dir / "template")) + Words{"--limit", "3"}).exit_code == 0);
  const std::string first = read_file(dir / "out");
  for (const Words& other :
       {with("{{ a }}"), Words{"--message-template", "user={{ a }}"}, Words{}}) {
    const Ended ended = run(flags + other + Words{"--resume"});
    CHECK(ended.exit_code == 1);
    CHECK(ended.err.find("_template = ") != std::string::npos);
  }
  CHECK(run(flags + with(kTemplate + "\n") + Words{"--resume", "--keep", "a"})
            .err.find("the run began with keep = none, found [\"a\"]") != std::string::npos);
  CHECK(read_file(dir / "out") == first);
  write_file(dir / "other", kTemplate + "\n");
  CHECK(run(flags + with("@" + (dir / "other")) + Words{"--resume"}).exit_code == 0);
  REQUIRE(run({"--input", dir / "in", "--output", dir / "whole", "--max-tokens", "4",
               "--prompt-template", kTemplate + "\n"})
              .exit_code == 0);
  CHECK(read_file(dir / "out") == read_file(dir / "whole"));
}

TEST_CASE("kept keys stand in records of every form, as the line has them") {
  const std::string plain = R"({"prompt": "Nora has", "score" : 1.50, "n":2, "temperature": 1})";
  const std::string batch =
      R"({"custom_id":"a","url":"/v1/completions","body":{"prompt":["Nora","Ben"]},"score":1e2})";
  const std::string chat = R"({"custom_id":"b","url":"/v1/chat/completions","body":{"messages":)"
                           R"([{"role":"user","content":"Hi"}]},"score":[ 1 , 2.0]})";
  const std::string wrong = R"({"prompt":"Nora has","n":0,"score":"x"})";
  const std::string lines =
      plain + "\n" + batch + "\n" + chat + "\n" + wrong + "\n{\"score\":\n[]\n";
  const Answers answers = answer(
      lines, {"--keep", "score,prompt", "--max-tokens", "3", "--chat-template", kChatmlFile});
  REQUIRE(answers.records.size() == 6);
  const auto begins = [&](size_t i, const std::string& begin) {
    CAPTURE(answers.records[i].line());
    CHECK(answers.records[i].line().starts_with(begin));
  };
  begins(0, R"({"id":null,"index":0,"input":{"prompt":"Nora has","score":1.50},"choices":[)");
  begins(1, R"({"id":"batch_req_1","custom_id":"a","index":1,"input":{"score":1e2},"response":{)");
  begins(2,
         R"({"id":"batch_req_2","custom_id":"b","index":2,"input":{"score":[1,2.0]},"response")");
  begins(3, R"({"id":null,"index":3,"input":{"prompt":"Nora has","score":"x"},"line":4,"error":{)");
  begins(4, R"({"id":null,"index":4,"line":5,"error":{"code":"invalid_json")");
  begins(5, R"({"id":null,"index":5,"line":6,"error":{"code":"not_an_object")");
  const Answers all =
      answer(lines, {"--keep", "all", "--max-tokens", "3", "--chat-template", kChatmlFile});
  REQUIRE(all.records.size() == 6);
  const std::string packed = R"({"prompt":"Nora has","score":1.50,"n":2,"temperature":1})";
  CHECK(all.records[0].line().find("\"input\":" + packed + ",\"choices\"") != std::string::npos);
  CHECK(all.records[1].line().find("\"input\":" + batch + ",\"response\"") != std::string::npos);
  CHECK(all.records[3].line().find("\"input\":" + wrong + ",\"line\"") != std::string::npos);
  CHECK_FALSE(all.records[4].has("/input"));
}

TEST_CASE("rows of CSV give the prompts and kept keys that objects of strings give") {
  const TempDir dir;
  write_file(dir / "in.csv", "id,q,x\n7,\"Nora, \"\"Ben\"\"\",1.50\n8,,\n9,{{ q }},</s>\n");
  write_file(dir / "in.jsonl", R"({"id":"7","q":"Nora, \"Ben\"","x":"1.50"}
{"id":"8","q":"","x":""}
{"id":"9","q":"{{ q }}","x":"</s>"}
)");
  for (const std::string name : {"csv", "jsonl"}) {
    CHECK(run({"--input", dir / ("in." + name), "--output", dir / name, "--keep", "all",
               "--prompt-template", "{{ q }}{{ x }} has", "--max-tokens", "4"})
              .exit_code == 0);
  }
  CHECK(read_file(dir / "csv").find(R"("input":{"id":"7","q":"Nora, \"Ben\"","x":"1.50"})") !=
        std::string::npos);
  CHECK(read_file(dir / "csv") == read_file(dir / "jsonl"));
}

TEST_CASE("a file of errors has the kept keys of their lines") {
  const TempDir dir;
  write_file(dir / "in", "{\"prompt\":\"Nora\",\"x\":1.50}\n{\"prompt\":5,\"x\":1.50}\n");
  CHECK(run({"--input", dir / "in", "--output", dir / "out", "--errors", dir / "errors", "--keep",
             "x", "--max-tokens", "2"})
            .exit_code == 2);
  CHECK(
      read_file(dir / "errors").find(R"("index":1,"line":2,"input":{"x":1.50},"response":null)") !=
      std::string::npos);
}

TEST_CASE("kept keys come through interrupts, retries of errors and merges") {
  const TempDir dir;
  const int count = 90;
  std::string lines = rows(count);
  lines += "{\"id\":\"late\",\"a\":1}\n";
  write_file(dir / "in", lines);
  const Words flags = {
      "--input", dir / "in", "--prompt-template", kTemplate, "--max-tokens", "24", "--threads", "1",
      "--keep",  "id,sum",   "--max-batch-size",  "4",       "--ignore-eos"};
  REQUIRE(run(flags + Words{"--output", dir / "whole"}).exit_code == 2);
  const std::string whole = read_file(dir / "whole");
  CHECK(whole.find(R"("input":{"id":3,"sum":6.50},)") != std::string::npos);
  CHECK(whole.find(R"("input":{"id":"late"},"line":91,"error":)") != std::string::npos);

  Process process(command(Words{"run"} + flags + Words{"--output", dir / "out"}));
  CHECK(process.wait_until([&] { return fs::exists(dir / "out") && fs::file_size(dir / "out"); }));
  process.send(SIGINT);
  CHECK(process.wait().exit_code == 130);
  CHECK(read_file(dir / "out") != whole);
  CHECK(run(flags + Words{"--output", dir / "out", "--resume"}).exit_code == 2);
  CHECK(read_file(dir / "out") == whole);
  CHECK(run(flags + Words{"--output", dir / "out", "--resume", "--retry-errors"}).exit_code == 2);
  CHECK(read_file(dir / "out") == whole);

  Words merge = {"merge", "--output", dir / "merged"};
  for (const std::string shard : {"0/2", "1/2"}) {
    const std::string output = dir / fmt::format("shard{}", shard[0]);
    CHECK(run(flags + Words{"--shard", shard, "--output", output}).exit_code != 1);
    merge.push_back(output);
  }
  CHECK(Process(command(merge)).wait().exit_code != 1);
  CHECK(read_file(dir / "merged") == whole);
}

TEST_CASE("the plan counts the kept keys of lines that wait or run") {
  const TempDir dir;
  write_file(dir / "in", rows(3));
  const auto kept_bytes = [&](const Words& flags) {
    const Ended ended = Process(command(Words{"plan", "--json", "--input", dir / "in",
                                              "--prompt-template", kTemplate} +
                                        flags))
                            .wait();
    return Json(ended.out).integer("/memory/kept_bytes");
  };
  CHECK(kept_bytes({}) == 0);
  CHECK(kept_bytes({"--keep", "sum"}) == 3 * 12);  // {"sum":0.50}
}

}  // namespace pagedinfer
