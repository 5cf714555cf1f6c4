// Tables as input, and outputs that are made of JSON lines.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "core/json.h"
#include "io/file_names.h"
#include "tests/support/e2e.h"
#include "tests/support/gzip.h"
#include "tests/support/zstd.h"

namespace pagedinfer {
namespace {

std::string cell_of(const std::string& text) {
  std::string cell = "\"";
  for (const char c : text) cell.append(c == '"' ? 2 : 1, c);
  return cell + "\"";
}

// The same requests as a table and as lines of JSON; a bad row among them is another bad line.
struct Requests {
  std::string table = "id,prompt,max_tokens,temperature\n", lines = {};
};

Requests make_requests(int count) {
  Requests requests;
  for (int i = 0; i < count; ++i) {
    std::string prompt = fmt::format("Nora has {} \"apples\",\nand", i);
    if (i % 7 == 3) {
      requests.table += "only one cell\r\n";
      requests.lines += "{\"prompt\": 5}\n";
      continue;
    }
    const std::string id = fmt::format("row {}", i);
    requests.table += fmt::format("{},{},{},{}\n{}", id, cell_of(prompt), 1 + i * 5 % 23,
                                  i % 2 == 0 ? "" : "0.7", i % 5 == 0 ? "\n" : "");
    JsonWriter json(requests.lines);
    json.begin_object().field("id", id).field("prompt", prompt).field("max_tokens", 1 + i * 5 % 23);
    if (i % 2 != 0) json.key("temperature").raw("0.7");
    json.end_object();
    requests.lines += '\n';
  }
  return requests;
}

const Words kColumns = {"--json-columns", "max_tokens,temperature"};

std::string unpacked(const std::string& command) {
  const Ended ended = run_program({"/bin/sh", "-c", command});
  CHECK(ended.exit_code == 0);
  return ended.out;
}

}  // namespace

TEST_CASE(
    "a table gives the records of the same JSON lines, as a file, packed, in shards and a pipe") {
  const TempDir dir;
  const Requests requests = make_requests(40);
  write_file(dir / "in.csv", requests.table);
  write_file(dir / "lines.jsonl", requests.lines);
  CHECK(run({"--input", dir / "lines.jsonl"}).exit_code == 2);
  CHECK(run(Words{"--input", dir / "in.csv"} + kColumns).exit_code == 2);
  const std::string expected = read_file(dir / "in.completions.jsonl");
  const auto lines = json_file(dir / "lines.completions.jsonl"), rows = json_lines(expected);
  REQUIRE(lines.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % 7 != 3) CHECK(rows[i].line() == lines[i].line());
  }
  CHECK(rows[3].line() ==
        R"({"id":null,"index":3,"line":9,"error":{"code":"invalid_row","message":)"
        R"("the row: found 1 cell, expected 4, as the header has"}})");

  write_file(dir / "packed.csv.gz", gzip(requests.table));
  write_file(dir / "packed.csv.zst", zstd(requests.table));
  for (const char* const name : {"packed.csv.gz", "packed.csv.zst"}) {
    CHECK(run(Words{"--input", dir / name, "--overwrite"} + kColumns).exit_code == 2);
    CHECK(read_file(dir / "packed.completions.jsonl") == expected);
  }
  const Ended piped =
      run(Words{"--input", "-", "--input-format", "csv"} + kColumns, requests.table);
  CHECK(piped.out == expected);

  Words shards;
  for (const std::string shard : {"0/3", "1/3", "2/3"}) {
    shards.push_back(dir / ("shard" + shard.substr(0, 1)));
    const Words flags = {"--input", dir / "in.csv", "--shard", shard, "--output", shards.back()};
    CHECK(run(flags + kColumns).exit_code == 2);
  }
  const Words merge = {"merge", "--quiet", "--output"};
  CHECK(run_program(command(merge + Words{dir / "merged"} + shards)).exit_code == 0);
  CHECK(read_file(dir / "merged") == expected);
  CHECK(run_program(command(merge + Words{dir / "merged.csv"} + shards)).exit_code == 0);
  CHECK(run_program(command(merge + Words{dir / "merged.csv"} + shards)).exit_code == 1);
  CHECK(names_in(dir.path()).count("merged.csv.jsonl") == 0);
  CHECK(run(Words{"--input", dir / "in.csv", "--output", dir / "made.csv"} + kColumns).exit_code ==
        2);
  CHECK(read_file(dir / "merged.csv") == read_file(dir / "made.csv"));
}

TEST_CASE("a run over a table that is killed is resumed, unless the table was changed") {
  const TempDir dir;
  const Requests requests = make_requests(120);
  write_file(dir / "in.csv", requests.table);
  CHECK(run(Words{"--input", dir / "in.csv", "--output", dir / "single"} + kColumns).exit_code ==
        2);
  const Words flags = Words{"--input", dir / "in.csv", "--output", dir / "out.csv"} + kColumns;
  {
    Process process(command(Words{"run"} + flags + Words{"--max-batch-size", "1"}));
    CHECK(process.wait_until([&] { return read_file(dir / "out.csv.jsonl").size() > 300; }));
    process.send(SIGKILL);
    CHECK(process.wait().exit_code == 128 + SIGKILL);
  }
  CHECK(names_in(dir.path()).count("out.csv") == 0);
  write_file(dir / "in.csv", "x" + requests.table);
  CHECK(run(flags + Words{"--resume"}).err.find("have changed since the run began") !=
        std::string::npos);
  write_file(dir / "in.csv", requests.table);
  CHECK(run(flags + Words{"--resume", "--keep-jsonl"}).exit_code == 2);
  CHECK(read_file(dir / "out.csv.jsonl") == read_file(dir / "single"));
}

TEST_CASE(
    "an output of another form is made at the end, and a run that has ended is not repeated") {
  const TempDir dir;
  const Requests requests = make_requests(20);
  const std::string input = dir / "in.jsonl";
  write_file(input, requests.lines);
  CHECK(run({"--input", input, "--output", dir / "single"}).exit_code == 2);
  const std::string expected = read_file(dir / "single");
  for (const std::string name : {"x.jsonl.gz", "x.jsonl.zst", "x.csv", "x.csv.zst"}) {
    CAPTURE(name);
    const std::string output = dir / name, records = output + ".jsonl";
    const bool is_table = name.find(".csv") != std::string::npos;
    write_file(input, requests.lines);
    const Words flags = {"--input", input, "--output", output};
    CHECK(run(flags + Words{"--errors", dir / "errors"}).exit_code == 2);
    CHECK(json_file(dir / "errors").size() == 3);
    const std::string made = read_file(output);
    CHECK(!name_exists(records));
    CHECK(name_exists(run_of(records)));
    CHECK(name_exists(dir / "x.stats.jsonl"));
    if (!is_table) {
      CHECK(unpacked((name.ends_with(".gz") ? "gzip -dc " : "zstd -qdc ") + output) == expected);
    }

    CHECK(run(flags).err.find(output + ": the file exists; --resume continues it") !=
          std::string::npos);
    const Ended again = run(flags + Words{"--resume"});
    CHECK(again.exit_code == 2);
    CHECK(again.err.find("nothing new: 20 records were there already") != std::string::npos);
    CHECK(again.err.find("17 lines completed, 3 ended in an error record") != std::string::npos);
    CHECK(read_file(output) == made);
    CHECK(!name_exists(records));

    // The input has grown.
    write_file(input, requests.lines + requests.lines);
    const Ended more = run(flags + Words{"--resume"});
    if (is_table) {
      CHECK(more.exit_code == 1);
      CHECK(more.err.find("the input has more lines now") != std::string::npos);
      CHECK(read_file(output) == made);
    } else {
      CHECK(more.exit_code == 2);
      CHECK(unpacked((name.ends_with(".gz") ? "gzip -dc " : "zstd -qdc ") + output)
                .starts_with(expected));
    }
    write_file(input, requests.lines);
    CHECK(run(flags + Words{"--overwrite", "--keep-jsonl"}).exit_code == 2);
    CHECK(read_file(output) == made);
    CHECK(read_file(records) == expected);

    // As a run leaves it that is killed while it converts.
    std::remove(output.c_str());
    write_file(output + ".converting-1-0", "half of it");
    CHECK(run(flags + Words{"--resume"}).exit_code == 2);
    CHECK(read_file(output) == made);
    CHECK(!name_exists(records));
    std::remove(output.c_str());
  }
}

TEST_CASE("forms that cannot be read or written are refused with what helps") {
  const TempDir dir;
  write_file(dir / "in.jsonl", "{\"prompt\":\"a\"}\n");
  write_file(dir / "in.csv", ",prompt\n0,a\n");
  const auto refuses = [&](const Words& flags, const std::string& message) {
    const Ended ended = run(flags);
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(ended.err.find(message) != std::string::npos, ended.err);
  };
  const Words input = {"--input", dir / "in.jsonl"};
  refuses(input + Words{"--output", dir / "x.parquet"}, "run() of a pyarrow table");
  refuses(input + Words{"--output", dir / "x.parquet"}, "DuckDB");
  for (const std::string name : {"x.tsv", "x.tsv.gz"}) {
    refuses(input + Words{"--output", dir / name}, "ends with .tsv, and the program writes");
  }
  refuses(input + Words{"--keep-jsonl"}, "--keep-jsonl: --output ");
  refuses(input + Words{"--json-columns", "a"}, "--json-columns: --input ");
  refuses(input + Words{"--output", dir / "in.jsonl.csv", "--stats", dir / "in.jsonl.csv"},
          "is what --output names");
  refuses({"--input", dir / "in.csv"}, "in.csv: the header: column 1 of 2 has no name");
  CHECK(names_in(dir.path()).size() == 2);
}

}  // namespace pagedinfer
