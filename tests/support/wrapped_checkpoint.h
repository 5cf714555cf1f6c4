// A checkpoint of a text model as the checkpoint of a model for pictures around it.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/support.h"

namespace pagedinfer {

// What the names of the tensors of a text model become, and a part that is not run.
struct WrappedNames {
  std::string root, output, part;
};

inline const WrappedNames kTextInside = {"model.language_model.", "lm_head.", "model.visual."};
inline const WrappedNames kTextBeside = {"language_model.model.", "language_model.lm_head.",
                                         "vision_tower."};
inline const WrappedNames kTextOnTop = {"model.", "lm_head.", "visual."};
inline const std::vector<WrappedNames> kAllWrappedNames = {kTextInside, kTextBeside, kTextOnTop};

// Writes `to` for each `from` at the beginnings of a JSON text's strings, in one pass.
inline std::string renamed(std::string_view text, std::string_view before,
                           const WrappedNames& names) {
  const std::pair<std::string, std::string> pairs[] = {
      {fmt::format("\"{}model.", before), fmt::format("\"{}{}", before, names.root)},
      {fmt::format("\"{}lm_head.", before), fmt::format("\"{}{}", before, names.output)}};
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    for (const auto& [from, to] : pairs) {
      if (!text.substr(at).starts_with(from)) continue;
      result += to;
      at += from.size();
      break;
    }
    if (at == begin) result += text[at++];
  }
  return result;
}

// A safetensors file with other names of tensors and, if `part` is not empty, a tensor of that
// part. `before` stands before all of its names.
inline std::string renamed_tensors(const std::string& file, const WrappedNames& names,
                                   std::string_view before = "", bool adds_part = true) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  std::string header = renamed(file.substr(8, length), before, names);
  std::string data = file.substr(8 + length);
  if (adds_part) {
    while (data.size() % 4 != 0) data += '\0';
    header.insert(
        header.rfind('}'),
        fmt::format(R"(, "{}x.weight": {{"dtype": "F32", "shape": [1], "data_offsets": [{}, {}]}})",
                    names.part, data.size(), data.size() + 4));
    data += "abcd";
  }
  while (header.size() % 8 != 0) header += ' ';
  length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

// Writes the model for pictures `architecture` into `dir`: the text model is the checkpoint in
// `text_dir`. `fields` stand in text_config before the fields of that checkpoint, each before a
// comma. `in_config` are the names in config.json, if they are others than those in the file.
inline void write_wrapped(const std::string& text_dir, const std::string& architecture,
                          const WrappedNames& names, const std::string& dir,
                          const std::string& fields = "", const WrappedNames* in_config = nullptr) {
  std::filesystem::create_directories(dir);
  const std::string text =
      renamed(read_file(text_dir + "/config.json"), "", in_config == nullptr ? names : *in_config);
  REQUIRE(text.starts_with("{"));
  simdjson::dom::parser parser;
  const simdjson::dom::element config = parser.parse(text);
  simdjson::dom::element quantization;
  std::string outer;
  if (config["quantization_config"].get(quantization) == simdjson::SUCCESS) {
    outer = fmt::format(R"("quantization_config": {}, )", simdjson::minify(quantization));
  }
  write_file(dir + "/config.json",
             fmt::format(R"({{"architectures": ["{}"], {}"text_config": {{{}{}}})", architecture,
                         outer, fields, text.substr(1)));
  write_file(dir + "/model.safetensors",
             renamed_tensors(read_file(text_dir + "/model.safetensors"), names));
}

}  // namespace pagedinfer
