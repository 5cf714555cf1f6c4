#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// Everything except the input that a run's records depend on: names of settings and their values.
struct Fingerprint {
  std::vector<std::pair<std::string, std::string>> settings = {};

  void set(std::string_view name, std::string_view value) { settings.emplace_back(name, value); }
};

// The fingerprint as a line, a JSON object with its \n.
std::string fingerprint_line(const Fingerprint& fingerprint);
// Throws Error naming `path` if the line is not a fingerprint.
Fingerprint parse_fingerprint(const std::string& path, std::string_view line);

// A setting whose values differ between two runs. A missing setting has the value "none".
struct SettingDifference {
  std::string name, a, b;
};
std::optional<SettingDifference> first_difference(const Fingerprint& a, const Fingerprint& b);

// Throws Error naming `path` and the first setting that differs between `found` and `began`. With
// `retry_errors`, which computes error records again, a setting may differ if every other record
// below limit_of_kept() is the same with both of its values.
void require_same(const std::string& path, const Fingerprint& began, const Fingerprint& found,
                  bool retry_errors = false);

// If max_model_len differs: the number of tokens from which on it may have cut a prompt or a
// completion of a record.
std::optional<int64_t> limit_of_kept(const Fingerprint& began, const Fingerprint& found);

}  // namespace pagedinfer
