#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>

#include "core/error.h"
#include "io/safetensors.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

using namespace pagedinfer;

namespace {

// A file of this header and so many bytes of data, which count up from 0.
std::string safetensors(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

// The header of these entries, padded to keep the data aligned.
std::string header_of(const std::vector<std::string>& entries) {
  std::string header = fmt::format("{{{}}}", fmt::join(entries, ", "));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}": {{"dtype": "{}", "shape": {}, "data_offsets": {}}})", name, dtype,
                     shape, offsets);
}

// The error that a directory with this model.safetensors gives, or "".
std::string error_of(const std::string& file) {
  TempDir dir;
  write_file(dir / "model.safetensors", file);
  try {
    (void)Checkpoint(dir.path());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a tensor is a view of the file's bytes") {
  TempDir dir;
  const std::string header = header_of(
      {entry("a", "F32", "[2, 3]", "[0, 24]"), entry("b", "BF16", "[4]", "[24, 32]"),
       entry("odd", "I64", "[1]", "[32, 40]"), entry("none", "F16", "[0, 7]", "[40, 40]")});
  write_file(dir / "model.safetensors", safetensors(header, 40));
  const Checkpoint checkpoint(dir.path());
  CHECK(checkpoint.names() == std::vector<std::string>{"a", "b", "none", "odd"});
  CHECK(checkpoint.contains("odd"));
  CHECK_FALSE(checkpoint.contains("c"));

  const Tensor a = checkpoint.tensor("a", 2, 3);
  CHECK(a.dtype == DType::kF32);
  CHECK(a.stride == 3);
  CHECK(static_cast<const char*>(a.data)[23] == 23);
  const Tensor b = checkpoint.tensor("b", 1, 4);
  CHECK(b.rows == 1);
  CHECK(static_cast<const char*>(b.data)[0] == 24);
  CHECK(checkpoint.dtype("b") == DType::kBF16);
}

TEST_CASE("a tensor that its file does not align is copied") {
  TempDir dir;
  const std::string header = header_of({entry("skewed", "F32", "[1, 2]", "[1, 9]")});
  write_file(dir / "model.safetensors", safetensors(header, 9));
  const Checkpoint checkpoint(dir.path());
  const Tensor tensor = checkpoint.tensor("skewed", 1, 2);
  CHECK(reinterpret_cast<uintptr_t>(tensor.data) % 4 == 0);
  for (int i = 0; i < 8; ++i) CHECK(static_cast<const char*>(tensor.data)[i] == i + 1);
}

TEST_CASE("tensors of quantized types have the bytes of the file, aligned for their type") {
  const TempDir dir;
  const std::string header = header_of(
      {entry("e4m3", "F8_E4M3", "[3, 5]", "[0, 15]"), entry("e5m2", "F8_E5M2", "[2]", "[15, 17]"),
       entry("u8", "U8", "[]", "[17, 18]"), entry("i8", "I8", "[3]", "[18, 21]"),
       entry("i32", "I32", "[2, 1]", "[21, 29]"), entry("i64", "I64", "[1]", "[29, 37]")});
  write_file(dir / "model.safetensors", safetensors(header, 37));
  const Checkpoint files(dir.path());
  for (const auto& [name, begin, size, alignment] : {std::tuple("e4m3", 0, 15, 1),
                                                     {"e5m2", 15, 2, 1},
                                                     {"u8", 17, 1, 1},
                                                     {"i8", 18, 3, 1},
                                                     {"i32", 21, 8, 4},
                                                     {"i64", 29, 8, 8}}) {
    CAPTURE(name);
    const StoredTensor& tensor = files.stored(name);
    REQUIRE(std::ssize(tensor.bytes) == size);
    CHECK(reinterpret_cast<uintptr_t>(tensor.bytes.data()) % static_cast<size_t>(alignment) == 0);
    for (int i = 0; i < size; ++i) {
      CHECK(static_cast<int>(tensor.bytes[static_cast<size_t>(i)]) == begin + i);
    }
  }
  CHECK(files.stored("e4m3").shape == std::vector<int64_t>{3, 5});
  CHECK(files.stored("e4m3").type == "F8_E4M3");
  CHECK(files.stored("u8").shape.empty());
  CHECK_THROWS_AS((void)files.stored("f8"), Error);
}

TEST_CASE("a tensor that is given back takes no memory, and can be read again from its file") {
  constexpr int kColumns = 40000;  // many pages
  const std::string header = header_of({entry("a", "BF16", "[1, 40000]", "[0, 80000]"),
                                        entry("b", "BF16", "[1, 40000]", "[80000, 160000]")});
  const TempDir dir;
  write_file(dir / "model.safetensors", safetensors(header, 160000));
  const Checkpoint files(dir.path());
  const auto bytes_of = [](const Tensor& tensor) {
    return std::string(static_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes()));
  };
  const Tensor tensor = files.tensor("b", 1, kColumns);
  const std::string before = bytes_of(tensor);
  files.give_back("b");
  CHECK(bytes_of(tensor) == before);

  // What is made up is gone, but for what shares a page with others.
  const Checkpoint made_up("config.json", DType::kBF16, {{"a", 1, kColumns}, {"b", 1, kColumns}});
  for (const char* const name : {"a", "b"}) {
    const Tensor filled = made_up.tensor(name, 1, kColumns);
    std::fill_n(filled.row<uint16_t>(0), kColumns, uint16_t{7});
  }
  made_up.give_back("b");
  CHECK(made_up.tensor("b", 1, kColumns).row<uint16_t>(0)[kColumns / 2] == 0);
  for (int i = 0; i < kColumns; ++i) {
    REQUIRE(made_up.tensor("a", 1, kColumns).row<uint16_t>(0)[i] == 7);
  }
}

TEST_CASE("a tensor that its file does not align is not given back") {
  const std::string header = header_of({entry("a", "BF16", "[1, 40000]", "[1, 80001]")});
  const TempDir dir;
  write_file(dir / "model.safetensors", safetensors(header, 80001));
  const Checkpoint files(dir.path());
  const Tensor tensor = files.tensor("a", 1, 40000);
  files.give_back("a");
  CHECK(tensor.row<uint16_t>(0)[20000] != 0);
}

TEST_CASE("asking for what a checkpoint lacks names file, tensor, found and expected") {
  TempDir dir;
  write_file(dir / "model.safetensors",
             safetensors(header_of({entry("a", "F32", "[2, 3]", "[0, 24]"),
                                    entry("i", "I8", "[4]", "[24, 28]")}),
                         28));
  const std::string file = dir / "model.safetensors";
  const Checkpoint checkpoint(dir.path());
  CHECK_THROWS_WITH_AS(checkpoint.tensor("x", 1, 1), (file + ": no tensor 'x'").c_str(), Error);
  CHECK_THROWS_WITH_AS(checkpoint.tensor("a", 3, 2),
                       (file + ": tensor 'a' has shape [2, 3], expected [3, 2]").c_str(), Error);
  CHECK_THROWS_WITH_AS(checkpoint.tensor("a", 1, 6),
                       (file + ": tensor 'a' has shape [2, 3], expected [6]").c_str(), Error);
  CHECK_THROWS_WITH_AS(checkpoint.tensor("i", 1, 4),
                       (file + ": tensor 'i' has type I8, expected F32, F16 or BF16").c_str(),
                       Error);
}

TEST_CASE("a hostile header is an error that names what is wrong") {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return safetensors(header_of({entry("t", dtype, shape, offsets)}), 64);
  };
  const std::string huge(8, '\xFF');
  const std::string max = "9223372036854775807";
  const std::pair<std::string, std::string> cases[] = {
      {"", "has 0 bytes"},
      {"\x01\x02", "has 2 bytes"},
      {std::string("\x09\0\0\0\0\0\0\0{}", 10), "expected at most 2"},
      {huge + "{}", "18446744073709551615 bytes"},
      {safetensors("", 0), "not JSON"},
      {safetensors("[]", 0), "not a JSON object"},
      {safetensors("{", 0), "not JSON"},
      {safetensors("{}x", 0), "not JSON"},
      {safetensors(std::string(5000, '['), 0), "not JSON"},
      {safetensors("{\"a\": \"\xFF\"}", 0), "not JSON"},
      {safetensors(std::string("{\"a\0\": 1}", 9), 0), "not JSON"},
      {safetensors("{\"t\": 3}", 0), "'t' is not an object"},
      {safetensors("{\"t\": null}", 0), "'t' is not an object"},
      {safetensors("{\"t\": {}}", 0), "t.dtype: found nothing"},
      {safetensors(R"({"t": {"dtype": "F32", "data_offsets": [0, 4]}})", 4),
       "t.shape: found nothing"},
      {safetensors(R"({"t": {"dtype": "F32", "shape": [1]}})", 4), "t.data_offsets: found []"},
      {safetensors(R"({"t": {"dtype": 7, "shape": [1], "data_offsets": [0, 4]}})", 4),
       "t.dtype: found 7"},
      {one("F31", "[1]", "[0, 4]"), "t.dtype: found F31"},
      {one("F32", "1", "[0, 4]"), "t.shape: found 1"},
      {one("F32", "[-1]", "[0, 4]"), "t.shape: found -1"},
      {one("F32", "[1.0]", "[0, 4]"), "t.shape: found 1.0"},
      {one("F32", "[[1]]", "[0, 4]"), "t.shape: found [1]"},
      {one("F32", "[" + max + ", 2]", "[0, 8]"), "t.shape: found [9223372036854775807, 2]"},
      {one("F32", "[4294967296, 4294967296]", "[0, 0]"), "t.shape: found ["},
      {one("F32", "[1073741824, 1073741824, 4]", "[0, 0]"), "t.shape: found ["},
      {one("F4", "[3]", "[0, 2]"), "t.shape: found [3]"},
      {one("F32", "[18446744073709551616]", "[0, 4]"), "t.shape: found 1.8446744073709552e+19"},
      {one("F32", "[1e400]", "[0, 4]"), "t.shape: found not a finite number"},
      {one("F32", "[1]", "[0]"), "t.data_offsets: found [0]"},
      {one("F32", "[1]", "[0, 4, 8]"), "t.data_offsets: found [0, 4, 8]"},
      {one("F32", "[1]", "[4, 0]"), "t.data_offsets: found [4, 0]"},
      {one("F32", "[1]", "[-4, 0]"), "t.data_offsets: found -4"},
      {one("F32", "[1]", "[0, 5]"), "expected 4 bytes"},
      {one("F32", "[17]", "[0, 68]"), "the file's 64 bytes of data"},
      {one("F32", "[1]", "[64, 68]"), "the file's 64 bytes of data"},
      {one("F32", "[1]", "[9223372036854775803, " + max + "]"), "the file's 64 bytes of data"},
      {safetensors(
           header_of({entry("t", "F32", "[2]", "[0, 8]"), entry("u", "F32", "[2]", "[4, 12]")}),
           64),
       "tensors 't' and 'u' overlap"},
      {safetensors(
           header_of({entry("t", "F32", "[2]", "[0, 8]"), entry("u", "F32", "[2]", "[0, 8]")}), 64),
       "overlap"},
      {safetensors(
           header_of({entry("t", "F32", "[2]", "[0, 8]"), entry("t", "F32", "[2]", "[8, 16]")}),
           64),
       "'t' occurs twice"},
  };
  for (const auto& [file, said] : cases) {
    const std::string error = error_of(file);
    CAPTURE(error);
    CAPTURE(said);
    CHECK(has(error, "/model.safetensors: "));
    CHECK(has(error, said));
  }
}

TEST_CASE("every truncation of a checkpoint is an error") {
  const TinyModel files({.hidden = 4,
                         .layers = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .head_dim = 2,
                         .intermediate = 3,
                         .vocab = 9,
                         .eos_token = 1});
  const std::string path = files.dir() + "/model.safetensors";
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    CHECK(has(error_of(whole.substr(0, size)), "/model.safetensors: "));
  }
  CHECK(error_of(whole).empty());
}

TEST_CASE("a mutated checkpoint is an error or valid, and what is valid can be read") {
  const TinyModelOptions options = {.hidden = 4,
                                    .layers = 1,
                                    .heads = 1,
                                    .kv_heads = 1,
                                    .head_dim = 2,
                                    .intermediate = 3,
                                    .vocab = 9,
                                    .eos_token = 1};
  const TinyModel files(options);
  const std::string path = files.dir() + "/model.safetensors";
  const std::string valid = read_file(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, valid.data(), sizeof(header_size));
  const std::string alphabet = "0123456789[]{},:\"-eE.F32BU \\\0\xFF";
  std::mt19937 random(5);
  int errors = 0, loaded = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string file = valid;
    for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      const size_t at = random() % (random() % 8 == 0 ? 16 : 8 + header_size);
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0: file.insert(at, 1, c); break;
        case 1: file.erase(at, 1 + random() % 4); break;
        default: file[at] = c; break;
      }
    }
    write_file(path, file);
    try {
      ModelRunner runner(files.dir(), DType::kF32);
      runner.start(4);
      (void)runner.run({1, 2, 3}, {2});
      ++loaded;
    } catch (const Error&) {
      ++errors;
    }
  }
  CHECK(errors > 1000);
  CHECK(loaded > 10);
}

TEST_CASE("shards are found through the index, and its mistakes are named") {
  const TinyModel files({.sharded = true});
  const std::string index = files.dir() + "/model.safetensors.index.json";
  const std::string text = read_file(index);
  const auto error_with = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    write_file(index, changed.replace(at, from.size(), to));
    try {
      (void)Checkpoint(files.dir());
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(error_with("weight_map", "weight_map") == "");
  CHECK(has(error_with("weight_map", "weights"), "weight_map: found nothing"));
  CHECK(has(error_with("shard-1", "shard-2"), "shard-2.safetensors: is missing"));
  CHECK(has(error_with("shard-1", "shard-0"), "shard-0.safetensors: no tensor '"));
  CHECK(has(error_with("model.norm.weight", "model.mean.weight"), "no tensor 'model.mean.weight'"));
  CHECK(has(error_with("shard-1.safetensors", "../shard-1.safetensors"), "found ../shard-1"));
  CHECK(has(error_with("\"shard-1.safetensors\"", "[]"), "expected the name of a file"));
  CHECK(has(error_with("\"shard-1.safetensors\"", "\"\""), "expected the name of a file"));
  CHECK(has(error_with("\"shard-1.safetensors\"", "\".\""), "it is a folder, not a regular file"));

  write_file(index, text);
  const std::string shard = files.dir() + "/shard-1.safetensors";
  const std::string bytes = read_file(shard);
  write_file(shard, bytes.substr(0, bytes.size() - 1));
  CHECK(has(error_with("weight_map", "weight_map"), "/shard-1.safetensors: "));
  std::filesystem::remove(shard);
  CHECK(has(error_with("weight_map", "weight_map"), "/shard-1.safetensors: is missing"));
}
