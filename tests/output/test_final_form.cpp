#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "output/final_form.h"
#include "tests/support/file_trouble.h"
#include "tests/support/support.h"

using namespace pagedinfer;

namespace {

std::string odd_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"a",  "B", " ",    "\"",   ",",    "\n", "\r\n",
                                                   "\t", "é", "日本", "=1+1", "null", "{}", "7"};
  std::string text;
  for (auto left = random() % 6; left > 0; --left) text += kPieces[random() % kPieces.size()];
  return text;
}

void write_value(JsonWriter& json, std::mt19937& random) {
  switch (random() % 6) {
    case 0: json.value(static_cast<int64_t>(random())); break;
    case 1: json.value(random() % 2 == 0); break;
    case 2: json.value(nullptr); break;
    case 3: json.value(std::vector<int>{1, 2}); break;
    case 4: json.begin_object().field("k", odd_text(random)).end_object(); break;
    default: json.value(odd_text(random));
  }
}

void write_choice(JsonWriter& json, std::mt19937& random, bool is_chat) {
  if (is_chat) {
    json.key("message").begin_object().field("role", "assistant");
    json.field("content", odd_text(random)).field("refusal", nullptr).end_object();
  } else {
    json.field("text", odd_text(random));
  }
  if (random() % 5 == 0) json.field("token_ids", std::vector<int>{3, 4});
  json.field("finish_reason", random() % 2 == 0 ? "stop" : "length");
}

// The record of a line, in one of its forms.
std::string random_record(std::mt19937& random, int index) {
  std::string line;
  JsonWriter json(line);
  const bool is_batch = random() % 3 == 0, fails = random() % 6 == 0;
  const size_t num_choices = random() % 4 == 0 ? 1 + random() % 3 : 1;
  json.begin_object();
  if (is_batch) json.field("id", fmt::format("batch_req_{}", index));
  json.key(is_batch ? "custom_id" : "id");
  random() % 3 == 0 ? json.value(index) : json.value(odd_text(random));
  json.field("index", index);
  if (random() % 2 == 0) {
    json.key("input").begin_object();
    for (const char* const key : {"url", "text", "input.text", "a,\"b\"", "n"}) {
      if (random() % 3 != 0) write_value(json.key(key), random);
    }
    json.end_object();
  }
  if (fails) {
    json.field("line", index + 1);
    if (is_batch) json.field("response", nullptr);
    json.key("error").begin_object().field("code", "invalid_json");
    json.field("message", odd_text(random)).end_object();
  } else if (is_batch) {
    json.key("response").begin_object().field("status_code", 200).key("body").begin_object();
    json.key("choices").begin_array();
    for (size_t i = 0; i < num_choices; ++i) {
      json.begin_object().field("index", i);
      write_choice(json, random, index % 2 == 0);
      json.end_object();
    }
    json.end_array().key("usage").begin_object().field("prompt_tokens", 5);
    json.field("completion_tokens", 6).field("total_tokens", 11).end_object();
    json.end_object().end_object().field("error", nullptr);
  } else {
    if (num_choices > 1) json.key("choices").begin_array();
    for (size_t i = 0; i < num_choices; ++i) {
      if (num_choices > 1) json.begin_object().field("index", i);
      write_choice(json, random, false);
      if (num_choices > 1) json.end_object();
    }
    if (num_choices > 1) json.end_array();
    json.field("prompt_tokens", 3).field("completion_tokens", 4);
  }
  json.end_object();
  return line + "\n";
}

std::string random_records(std::mt19937& random, int count) {
  std::string records;
  for (int i = 0; i < count; ++i) records += random_record(random, i);
  return records;
}

// Compares PATH, read by Python's csv module, with the records in PATH.jsonl. It finds what a cell
// must hold by its column's name.
constexpr const char* kOracle = R"(
import csv, json, sys
def cell(value):
    if value is None: return ''
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(',', ':'))
FIXED = ['completion', 'text', 'finish_reason', 'prompt_tokens', 'completion_tokens', 'error_code', 'error_message']
for path in sys.argv[1:]:
    records = [json.loads(line) for line in open(path + '.jsonl', encoding='utf-8', newline='')]
    rows = list(csv.reader(open(path, encoding='utf-8', newline=''), strict=True))
    header, rows = rows[0], rows[1:]
    assert len(set(header)) == len(header), header
    inputs = []
    for record in records:
        inputs += [key for key in record.get('input', {}) if key not in inputs]
    assert header[:2] == ['id', 'index'] and header[2 + len(inputs):][:7] == FIXED, header
    renamed = dict(zip(inputs, header[2:]))
    for key, name in renamed.items():
        assert name == key or name.endswith('input.' + key), (key, name)
    place = 0
    for record in records:
        body = (record.get('response') or {}).get('body', record)
        error = record.get('error') or {}
        choices = body.get('choices') or [body]
        for number, choice in enumerate(choices):
            row = dict(zip(header, rows[place])); place += 1
            want = {'id': cell(record.get('custom_id', record.get('id'))), 'index': str(record['index'])}
            want |= {renamed[key]: cell(value) for key, value in record.get('input', {}).items()}
            usage = body.get('usage', record)
            counts = ('prompt_tokens', 'completion_tokens')
            want |= {key: cell(usage.get(key)) if number == 0 else '' for key in counts}
            want |= {'error_code': error.get('code', ''), 'error_message': error.get('message', '')}
            want['completion'] = '' if error else str(number)
            want['text'] = cell(choice['message']['content'] if 'message' in choice else choice.get('text'))
            want['finish_reason'] = cell(choice.get('finish_reason'))
            if 'token_ids' in header: want['token_ids'] = cell(choice.get('token_ids'))
            found = {key: value for key, value in row.items() if value or key in want}
            for key in header: want.setdefault(key, '')
            for key in header: found.setdefault(key, '')
            assert found == want, (path, found, want)
    assert place == len(rows)
)";

std::set<std::string> names_in(const TempDir& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace

TEST_CASE("a table of records is what Python's csv module reads") {
  const TempDir dir;
  std::mt19937 random(1);
  write_file(dir / "oracle.py", kOracle);
  std::string command = "python3 " + (dir / "oracle.py");
  for (int i = 0; i < 60; ++i) {
    const std::string path = dir / fmt::format("{}.csv", i);
    const std::string records = random_records(random, static_cast<int>(random() % 40));
    write_file(path + ".jsonl", records);
    write_final_form(path);
    command += " " + path;
    FinalCount expected;
    expected.records = std::ranges::count(records, '\n');
    for (size_t at = 0; (at = records.find("\"code\"", at)) != records.npos; ++at) {
      ++expected.failed;
    }
    CHECK(count_records(path).records == expected.records);
    CHECK(count_records(path).failed == expected.failed);
  }
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("compressed records are what other programs unpack, and can be unpacked") {
  const TempDir dir;
  std::mt19937 random(2);
  for (const int count : {0, 1, 100, 20000}) {
    const std::string records = random_records(random, count);
    for (const auto& [name, command] :
         {std::pair{"x.jsonl.gz", "gzip -dc "}, {"x.zst", "zstd -qdc "}}) {
      const std::string path = dir / name;
      write_file(path + ".jsonl", records);
      write_final_form(path);
      REQUIRE(std::system((command + path + " > " + (dir / "plain")).c_str()) == 0);
      CHECK(read_file(dir / "plain") == records);
      remove_records(path);
      CHECK(!name_exists(path + ".jsonl"));
      unpack_records(path, [] {});
      CHECK(read_file(path + ".jsonl") == records);
    }
  }
  write_file(dir / "y.csv.gz.jsonl", random_record(random, 0));
  write_file(dir / "y.csv.jsonl", read_file(dir / "y.csv.gz.jsonl"));
  write_final_form(dir / "y.csv.gz");
  write_final_form(dir / "y.csv");
  REQUIRE(std::system(("gzip -dc " + (dir / "y.csv.gz") + " > " + (dir / "plain")).c_str()) == 0);
  CHECK(read_file(dir / "plain") == read_file(dir / "y.csv"));

  write_file(dir / "z.csv.jsonl",
             R"({"id":1,"index":0,"input":{"n":1.50,"o":{"a":1E+2}},"text":"x"})"
             "\n");
  write_final_form(dir / "z.csv");
  CHECK(read_file(dir / "z.csv").find("\n1,0,1.50,\"{\"\"a\"\":1E+2}\",0,x,") != std::string::npos);
}

TEST_CASE("a conversion that is killed or fails at any call changes nothing, and begins again") {
  std::mt19937 random(3);
  for (const std::string name : {"x.csv", "x.jsonl.gz", "x.zst"}) {
    const TempDir dir;
    const std::string path = dir / name;
    write_file(path + ".jsonl", random_records(random, 30));
    write_final_form(path);
    const std::string expected = read_file(path);
    for (const auto kind : {Trouble::Kind::kKilled, Trouble::Kind::kKilledInside,
                            Trouble::Kind::kRefused, Trouble::Kind::kShort}) {
      bool happened = true;
      for (int at = 1; happened; ++at) {
        CAPTURE(at);
        write_file(path, "old");
        const Trouble trouble(kind, at);
        bool failed = false;
        try {
          write_final_form(
              path, [] {}, trouble.calls());
        } catch (const Killed&) {
          failed = true;
        } catch (const Error&) {
          failed = true;
        }
        happened = trouble.happened();
        CHECK(at < 50);
        const std::string left = read_file(path);
        CHECK((left == expected || (failed && left == "old")));
        write_file(path + ".converting-1-0", "of a process that was killed");
        write_final_form(path);
        CHECK(read_file(path) == expected);
        CHECK(names_in(dir) == std::set<std::string>{name, name + ".jsonl"});
      }
    }
  }
}

TEST_CASE("a conversion that is cancelled leaves the output as it was") {
  const TempDir dir;
  std::mt19937 random(4);
  struct Cancelled {};
  for (const std::string name : {"x.csv", "x.gz"}) {
    const std::string path = dir / name;
    write_file(path + ".jsonl", random_records(random, 3000));
    write_file(path, "old");
    CHECK_THROWS_AS(write_final_form(path, [] { throw Cancelled(); }), Cancelled);
    CHECK(read_file(path) == "old");
  }
  CHECK(names_in(dir) == std::set<std::string>{"x.csv", "x.csv.jsonl", "x.gz", "x.gz.jsonl"});
}

TEST_CASE("what is no complete file of records is not converted") {
  const TempDir dir;
  for (const std::string text : {"{\"index\":0}\n{\"index\"", "{\"index\":0}\n7\n"}) {
    write_file(dir / "x.csv.jsonl", text);
    CHECK_THROWS_WITH_AS(write_final_form(dir / "x.csv"),
                         doctest::Contains("line 2: expected a record"), Error);
    CHECK(!name_exists(dir / "x.csv"));
  }
  write_file(dir / "x.csv", "a,b\n1,2\n");
  CHECK_THROWS_WITH_AS(count_records(dir / "x.csv"),
                       doctest::Contains("line 2: expected the row of a record"), Error);
}
