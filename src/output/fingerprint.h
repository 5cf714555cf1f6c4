#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagedinfer {

// Everything but the input that a run's records depend on: names of settings and their values.
struct Fingerprint {
  std::vector<std::pair<std::string, std::string>> settings = {};

  void set(std::string_view name, std::string_view value) { settings.emplace_back(name, value); }
};

// A line with its end: a JSON object.
std::string fingerprint_line(const Fingerprint& fingerprint);
// Throws Error naming `path` if the line is none.
Fingerprint parse_fingerprint(const std::string& path, std::string_view line);

// A setting of which two runs have different values; "none" is the value of one that is not there.
struct SettingDifference {
  std::string name, a, b;
};
std::optional<SettingDifference> first_difference(const Fingerprint& a, const Fingerprint& b);

// Throws Error naming `path` and the first setting that is another one in `found` than in
// `began`.
void require_same(const std::string& path, const Fingerprint& began, const Fingerprint& found);

}  // namespace pagedinfer
