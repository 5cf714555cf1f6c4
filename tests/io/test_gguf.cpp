#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "io/gguf_file.h"
#include "io/gguf_header.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

std::span<const std::byte> bytes_of(const std::string& file) {
  return {reinterpret_cast<const std::byte*>(file.data()), file.size()};
}

std::string gguf_error_of(const std::string& file) {
  try {
    static_cast<void>(parse_gguf("a.gguf", bytes_of(file)));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  GgufWriter::append(bytes, value);
  return bytes;
}

GgufWriter small_file() {
  GgufWriter writer;
  writer.text("general.architecture", "llama").number("llama.block_count", 2);
  writer.real("eps", 1e-5f).flag("on", true);
  writer.texts("list", std::vector<std::string>{"a", "\"b\"\n"});
  writer.tensor("m", 2, {2, 32}, std::string(36, '\7')).tensor("v", 0, {3}, std::string(12, '\1'));
  return writer;
}

}  // namespace

TEST_CASE("a GGUF file's metadata are JSON, and its tensors refer to its bytes") {
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = small_file().file(version);
    const GgufHeader header = parse_gguf("a.gguf", bytes_of(file));
    CHECK(header.metadata ==
          R"({"general.architecture":"llama","llama.block_count":2,"eps":1e-05,"on":true,)"
          R"("list":["a","\"b\"\n"]})");
    REQUIRE(header.tensors.size() == 2);
    const StoredTensor& m = header.tensors.at("m");
    CHECK(m.type == "Q4_0");
    CHECK(m.shape == std::vector<int64_t>{2, 32});
    CHECK(m.bytes.size() == 36);
    CHECK(m.bytes.front() == std::byte{7});
    const StoredTensor& v = header.tensors.at("v");
    CHECK(v.type == "F32");
    CHECK(v.bytes.size() == 12);
    CHECK(reinterpret_cast<const char*>(v.bytes.data()) - file.data() ==
          static_cast<long>(file.size()) - 12);
  }
}

TEST_CASE("the data of a GGUF file begin where its own alignment says") {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u}) {
    GgufWriter writer(alignment);
    writer.number("general.alignment", alignment);
    writer.tensor("a", 0, {1}, "abcd").tensor("b", 0, {1}, "efgh");
    const std::string file = writer.file();
    const GgufHeader header = parse_gguf("a.gguf", bytes_of(file));
    CHECK(std::memcmp(header.tensors.at("a").bytes.data(), "abcd", 4) == 0);
    CHECK(std::memcmp(header.tensors.at("b").bytes.data(), "efgh", 4) == 0);
  }
}

TEST_CASE("a hostile GGUF file is an error that names the file and what is wrong") {
  const std::string good = small_file().file();
  const auto with = [&](size_t at, const std::string& bytes) {
    std::string file = good;
    file.replace(at, bytes.size(), bytes);
    return file;
  };
  const uint64_t huge = UINT64_MAX;
  const std::string begin_of_v = little_endian(uint64_t{1}) + "v" + little_endian(1u) +
                                 little_endian(uint64_t{3}) + little_endian(0u);
  const size_t offset_of_v = good.find(begin_of_v) + begin_of_v.size();
  const auto list = [](uint32_t type, uint64_t count) {
    return little_endian(9u) + little_endian(type) + little_endian(count);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "does not begin with GGUF"},
      {"GGU", "does not begin with GGUF"},
      {"GGUF", "the version: found 4 bytes at byte 4, expected at most 0"},
      {with(4, little_endian(1u)), "the version: found 1, expected 2 or 3"},
      {with(4, little_endian(4u)), "the version: found 4, expected 2 or 3"},
      {with(4, little_endian(0x03000000u)), "found big-endian numbers"},
      {with(8, little_endian(huge)), "the number of tensors: found 18446744073709551615"},
      {with(16, little_endian(huge)), "the number of metadata: found 18446744073709551615"},
      {with(24, little_endian(huge)), "a key of the metadata: found 18446744073709551615 bytes"},
      {GgufWriter().raw("k", little_endian(13u)).file(), "k: found a value of type 13"},
      {GgufWriter().raw("k", list(9, 1) + list(4, 0)).file(), "k: found a list in a list"},
      {GgufWriter().raw("k", list(4, huge)).file(), "k: found 18446744073709551615"},
      {GgufWriter().text("k", "\xFF").file(), "k: found bytes that are not UTF-8"},
      {GgufWriter().text("\xFF", "v").file(), "a key of the metadata: found bytes that are not"},
      {GgufWriter().text("k", "v").text("k", "w").file(), "k: found it twice"},
      {GgufWriter().number("general.alignment", 3).file(), "general.alignment: found 3"},
      {GgufWriter().number("general.alignment", 0).file(), "general.alignment: found 0"},
      {GgufWriter().tensor("t", 0, {1, 1, 1, 1, 1}, "abcd").file(), "'t': found 5 sizes"},
      {GgufWriter().tensor("t", 0, {-1}, "").file(), "'t': found size 18446744073709551615"},
      {GgufWriter().tensor("t", 4, {1}, "abcd").file(), "'t': found type 4"},
      {GgufWriter().tensor("t", 2, {33}, "").file(), "found Q4_0 with rows of 33"},
      {GgufWriter().tensor("t", 0, {1LL << 40, 1LL << 40}, "").file(), "fewer than 2^64 numbers"},
      {GgufWriter().tensor("t", 0, {1LL << 62}, "").file(), "fewer than 2^64 bytes"},
      {GgufWriter().tensor("t", 0, {2}, "abcd").file(), "'t': found 8 bytes at 0 of the data"},
      {GgufWriter().tensor("t", 0, {1}, "abcd").tensor("t", 0, {1}, "abcd").file(),
       "'t': found it"},
      {with(offset_of_v, little_endian(uint64_t{32})), "tensors 'm' and 'v' overlap"},
      {with(offset_of_v, little_endian(uint64_t{0})), "overlap"},
      {with(offset_of_v, little_endian(uint64_t{65})), "'v': found offset 65, expected a multiple"},
      {with(offset_of_v, little_endian(huge - 31)), "'v': found 12 bytes at 18446744073709551584"},
  };
  for (const auto& [file, message] : cases) {
    const std::string error = gguf_error_of(file);
    CAPTURE(error);
    CHECK(error.starts_with("a.gguf: "));
    CHECK(error.find(message) != std::string::npos);
  }
}

TEST_CASE("a GGUF file that is cut or changed anywhere is read or is an error") {
  const std::string good = small_file().file();
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK(gguf_error_of(good.substr(0, size)) != "");
  }
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string file = good;
    for (int n = 0; n < 3; ++n) file[random() % file.size()] = static_cast<char>(random());
    const std::string error = gguf_error_of(file);
    CHECK((error.empty() || error.starts_with("a.gguf: ")));
  }
}

TEST_CASE("shards of a GGUF file are one model, and a missing or foreign one is named") {
  const TempDir dir;
  const auto shard = [&](uint32_t number, uint32_t count, const std::string& tensor) {
    GgufWriter writer;
    writer.number("split.no", number).number("split.count", count);
    writer.tensor(tensor, 0, {1}, "abcd");
    return writer.file();
  };
  const auto path = [&](int number) { return dir / fmt::format("m-{:05}-of-00002.gguf", number); };
  write_file(path(1), shard(0, 2, "a"));
  CHECK_THROWS_WITH_AS(
      GgufFile{path(1)},
      fmt::format("{}: is missing, {} is one of 2 shards", path(2), path(1)).c_str(), Error);
  write_file(path(2), shard(1, 2, "b"));
  const GgufFile file(path(1));
  CHECK(file.tensors().size() == 2);
  CHECK(file.files()->size() == 2);
  CHECK(first_shard(path(2)) == path(1));
  CHECK_THROWS_WITH_AS(
      GgufFile{path(2)},
      fmt::format("{}: is a later shard; expected the first one, {}", path(2), path(1)).c_str(),
      Error);
  write_file(path(2), shard(1, 2, "a"));
  CHECK_THROWS_WITH_AS(GgufFile{path(1)},
                       fmt::format("{}: tensor 'a' is in an earlier shard too", path(2)).c_str(),
                       Error);
  for (const auto& [number, count] : {std::pair(0u, 2u), {1u, 3u}}) {
    write_file(path(2), shard(number, count, "b"));
    CHECK_THROWS_WITH_AS(GgufFile{path(1)},
                         fmt::format("{}: split.no: found shard {} of {}, expected shard 2 of 2",
                                     path(2), number + 1, count)
                             .c_str(),
                         Error);
  }
}

}  // namespace pagedinfer
