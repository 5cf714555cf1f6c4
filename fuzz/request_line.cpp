// Reads the bytes as an input file, plain, gzip or zstd, with LineReader and RequestParser. The
// first two bytes choose the maximum length of a line and the size of the pieces in which the file
// arrives.
#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "fuzz.h"
#include "io/line_reader.h"
#include "output/record.h"
#include "request/request_parser.h"
#include "tests/support/line_oracle.h"

using namespace pagedinfer;

namespace {

// The read end of a pipe whose pieces arrive one per read().
int pipe_of(std::string_view bytes, size_t piece) {
  int ends[2];
  require(pipe2(ends, O_DIRECT | O_CLOEXEC) == 0, "there is a pipe");
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    const std::string_view part = bytes.substr(0, piece);
    require(write(ends[1], part.data(), part.size()) == static_cast<ssize_t>(part.size()),
            "the pipe takes it");
  }
  close(ends[1]);
  return ends[0];
}

void check_line(RequestParser& parser, std::string_view text, int64_t index, int64_t number) {
  const ParsedLine line = parser.parse(text, index, number);
  require(line.failed() == !line.error.message.empty(), "an error has a code and a sentence");
  require(line.request.head.index == index, "the line keeps its index");
  Completion completion = {.head = line.request.head, .error = line.error};
  std::string record;
  append_record(record, completion, {});
  require(record.find('\n') == record.size() - 1, "a record is one line");
  simdjson::dom::parser json;
  require(json.parse(record).error() == simdjson::SUCCESS, "a record is JSON");

  const ParsedLine again = parser.parse(text, index, number);
  require(again.error.message == line.error.message && again.request.prompt == line.request.prompt,
          "a line is read the same way twice");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const int64_t longest = data[0] < 64 ? data[0] + 1 : kMaxLineBytes;
  // A pipe holds few pieces: each takes a page, even a small one.
  const size_t piece =
      std::min<size_t>(std::max<size_t>(data[1] + 1, bytes.size() / 200 + 1), 4096);

  const int fd = pipe_of(bytes, piece);
  const bool packed = bytes.substr(0, 2) == "\x1F\x8B";
  std::vector<NumberedLine> found;
  try {
    LineReader reader(fmt::format("/proc/self/fd/{}", fd), -1, longest);
    RequestParser parser({});
    for (int64_t index = 0; const auto line = reader.next(); ++index) {
      if (!packed) found.push_back({std::string(line->text), line->number});
      check_line(parser, line->text, index, line->number);
    }
  } catch (const Error&) {
    require(packed, "only packed bytes can be damaged");
  }
  close(fd);
  require(packed || found == split(bytes, longest), "every line comes once, whole and numbered");
  return 0;
}
