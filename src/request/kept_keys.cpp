#include "request/kept_keys.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "io/json_extent.h"

namespace pagedinfer {

namespace dom = simdjson::dom;

namespace {

// JSON text without the space between its tokens.
std::string without_space(std::string_view json) {
  std::string result(json.size() + simdjson::SIMDJSON_PADDING, '\0');
  size_t size = 0;
  CHECK(simdjson::minify(json.data(), json.size(), result.data(), size) == simdjson::SUCCESS);
  result.resize(size);
  return result;
}

}  // namespace

KeptKeys parse_kept_keys(std::span<const std::string> texts) {
  KeptKeys keep;
  for (std::string_view text : texts) {
    keep.all = keep.all || text == "all";
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      std::string_view name = text.substr(0, end);
      name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
      name = name.substr(0, name.find_last_not_of(' ') + 1);
      if (!name.empty()) keep.names.emplace_back(name);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return keep;
}

std::string kept_members(std::string_view line, dom::object object, const KeptKeys& keep) {
  if (!keep.any()) return "";
  std::string json = without_space(line);
  if (keep.all) return json;
  const std::vector<JsonMember> members = json_members(json);
  std::vector<std::pair<std::string_view, JsonMember>> kept;  // and the keys without escapes
  size_t number = 0;
  for (const auto [name, value] : object) {
    const JsonMember& member = members[number++];
    if (std::ranges::find(keep.names, name) == keep.names.end()) continue;
    const auto same = std::ranges::find(kept, name, &decltype(kept)::value_type::first);
    if (same == kept.end()) {
      kept.emplace_back(name, member);
    } else {
      same->second = member;
    }
  }
  std::string result = "{";
  for (const auto& [name, member] : kept) {
    if (result.size() > 1) result += ',';
    result.append(member.key).append(":").append(member.value);
  }
  return result += '}';
}

}  // namespace pagedinfer
