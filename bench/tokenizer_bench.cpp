// Time to load a tokenizer, and its speed in CPU time of one thread, on a text file and on texts
// that are hard for tokenizers.
//
//   pagedinfer_tokenizer_bench MODEL_DIR [TEXT_FILE]
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "bench_support.h"
#include "text/files/make_tokenizer.h"

namespace {

using namespace pagedinfer;

std::string repeat(const std::string& text, size_t size) {
  std::string all;
  while (all.size() < size) all += text;
  all.resize(size);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  std::unique_ptr<Tokenizer> tokenizer;
  const double load = seconds(Clock::kThread, [&] { tokenizer = make_tokenizer(argv[1]); });
  fmt::print("load: {:.0f} ms\n", 1e3 * load);

  constexpr size_t kSize = 1 << 20;
  std::mt19937 random(1);
  std::string letters, base64, ideographs;
  while (letters.size() < kSize) letters += static_cast<char>('a' + random() % 26);
  while (base64.size() < kSize) {
    base64 += "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[random() % 64];
  }
  while (ideographs.size() < kSize) {
    const auto c = 0x4E00 + random() % 0x5000;
    for (const auto byte : {0xE0 | c >> 12, 0x80 | (c >> 6 & 63), 0x80 | (c & 63)}) {
      ideographs += static_cast<char>(byte);
    }
  }
  std::vector<std::pair<std::string, std::string>> texts = {
      {"random letters, one word", letters},
      {"one letter", std::string(kSize, 'a')},
      {"spaces", std::string(kSize, ' ')},
      {"spaces and a letter", std::string(kSize, ' ') + "x"},
      {"lines", std::string(kSize, '\n')},
      {"spaces and lines", repeat("   \n", kSize)},
      {"digits", repeat("1234567890", kSize)},
      {"punctuation", repeat("=-=-=!", kSize)},
      {"base64", base64},
      {"ideographs", ideographs},
      {"accents", repeat("e\xCC\x81\xCC\xA3", kSize / 5 * 5)},
      {"marks only", repeat("\xCC\x81\xCC\xA3", kSize)},
  };
  if (argc > 2) {
    std::ifstream file(argv[2], std::ios::binary);
    texts.emplace_back(argv[2], std::string(std::istreambuf_iterator<char>(file), {}));
  }
  for (const auto& [name, text] : texts) {
    size_t num_tokens = 0;
    const double time =
        seconds(Clock::kThread, [&] { num_tokens = tokenizer->encode(text).size(); });
    fmt::print("{:28} {:8.1f} ms {:8.1f} MB/s {:8.2f} million tokens/s\n", name, 1e3 * time,
               1e-6 * static_cast<double>(text.size()) / time,
               1e-6 * static_cast<double>(num_tokens) / time);
  }
}
