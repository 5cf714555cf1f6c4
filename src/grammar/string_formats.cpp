#include "grammar/string_formats.h"

#include <fmt/format.h>

#include <optional>

namespace pagedinfer {

namespace {

// RFC 3339, section 5.6, with the days that each month has. Year 0 is left out, which Python's
// datetime does not know.
std::string date() {
  const std::string year = R"((000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3}))";
  const std::string fours = "(0[48]|[2468][048]|[13579][26])";
  return "(" + year +
         R"(-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|)"
         R"(02-(0[1-9]|1\d|2[0-8]))|()" +
         R"(\d\d)" + fours + "|" + fours + "00)-02-29)";
}

std::string time() {
  const std::string hour = R"(([01]\d|2[0-3]))", sixty = R"(:[0-5]\d)";
  return hour + sixty + sixty + R"((\.\d{1,9})?(Z|[+-])" + hour + sixty + ")";
}

std::string date_time() { return date() + "T" + time(); }

// RFC 3339, appendix A: a unit may be followed by the next smaller one only.
std::string duration() {
  const std::string count = R"(\d{1,6})";
  const auto units = [&](const std::string& a, const std::string& b, const std::string& c) {
    const std::string last = count + c, middle = count + b + "(" + last + ")?";
    return "(" + count + a + "(" + middle + ")?|" + middle + "|" + last + ")";
  };
  const std::string of_time = fmt::format("T{}", units("H", "M", "S"));
  return "P(" + units("Y", "M", "D") + "(" + of_time + ")?|" + of_time + "|" + count + "W)";
}

// RFC 1035, section 2.3.1, and RFC 1123, section 2.1: a label has at most 63 characters. Two
// hyphens do not meet, as in encoded names only.
std::string label() { return "[A-Za-z0-9]{1,15}(-[A-Za-z0-9]{1,15}){0,2}"; }

std::string hostname() { return label() + R"((\.)" + label() + "){0,3}"; }

// RFC 5321, section 4.1.2, without quoted strings and addresses of numbers. Before the @ stand at
// most 62 characters, where section 4.5.3.1.1 allows 64.
std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]";
  return atom + R"({1,30}(\.)" + atom + "{1,15}){0,2}@(" + label() + R"(\.){1,2}[A-Za-z]{2,18})";
}

// RFC 3986, section 3.2.2.
std::string ipv4() {
  const std::string octet = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return octet + R"((\.)" + octet + "){3}";
}

// RFC 4291, section 2.2, as section 3.2.2 of RFC 3986 writes it down.
std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}", begun = "(" + group + ":)";
  const std::string last = "(" + group + ":" + group + "|" + ipv4() + ")";
  const auto before = [&](int most) {
    return fmt::format("({}{{0,{}}}{})?::", begun, most, group);
  };
  return "(" + begun + "{6}" + last + "|::" + begun + "{5}" + last +  //
         "|(" + group + ")?::" + begun + "{4}" + last +               //
         "|" + before(1) + begun + "{3}" + last +                     //
         "|" + before(2) + begun + "{2}" + last +                     //
         "|" + before(3) + begun + last + "|" + before(4) + last +    //
         "|" + before(5) + group + "|" + before(6) + ")";
}

// RFC 3986, appendix A.
const std::string_view kPathCharacter = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f][0-9A-Fa-f])";
const std::string_view kQueryCharacter = "([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f][0-9A-Fa-f])";
const std::string_view kScheme = "[A-Za-z][A-Za-z0-9+.-]{0,15}:";

std::string authority() { return "//(" + hostname() + R"(|\[)" + ipv6() + R"(\])(:\d{1,5})?)"; }

std::string uri() {
  return fmt::format(R"({0}({1}(/{2}*)*|{2}+(/{2}*)*)(\?{3}*)?(#{3}*)?)", kScheme, authority(),
                     kPathCharacter, kQueryCharacter);
}

// A URI of at most 1,567 characters.
std::string short_uri() {
  std::string path;
  for (int i = 0; i < 6; ++i) path = fmt::format("(/{}{{0,64}}{})?", kPathCharacter, path);
  return fmt::format(R"({}{}{}(\?{}{{0,64}})?)", kScheme, authority(), path, kQueryCharacter);
}

// RFC 9562, section 4.
std::string uuid() { return "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"; }

struct Format {
  std::string_view name;
  std::string (*regex)();
};

// The first of a name whose texts have the lengths is taken.
constexpr Format kFormats[] = {
    {"date", date},         {"date-time", date_time}, {"duration", duration}, {"email", email},
    {"hostname", hostname}, {"ipv4", ipv4},           {"ipv6", ipv6},         {"time", time},
    {"uri", uri},           {"uri", short_uri},       {"uuid", uuid},
};

}  // namespace

Result<std::string> regex_of_format(std::string_view format, TextLengths lengths) {
  std::optional<RequestError> error;
  std::string names;
  for (const Format& known : kFormats) {
    if (known.name != format) continue;
    Result<std::string> regex = rewrite_regex(known.regex(), RegexUse::kJsonString, lengths);
    if (regex) return regex;
    error = regex.error();
  }
  if (error) return *error;
  for (const Format& known : kFormats) {
    if (names.ends_with(known.name)) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  return {"unsupported_schema",
          fmt::format("this format is not supported; supported are {}", names)};
}

}  // namespace pagedinfer
