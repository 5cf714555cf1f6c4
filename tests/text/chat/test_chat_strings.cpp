#include <doctest/doctest.h>

#include "text/chat/chat_strings.h"

using namespace pagedinfer;

TEST_CASE("strings are stripped of what Python strips, and of nothing else") {
  CHECK(strip("\t\n\v\f\r \x1c\x1d\x1e\x1f"
              "a\u200bb\u3000\u00a0\u2029\u0085") == "a\u200bb");
  CHECK(strip("\u200b") == "\u200b");  // has no width, but is no space
  CHECK(strip(" \u205f\u202f\u1680") == "");
  CHECK(strip("\u2060 x \ufeff") == "\u2060 x \ufeff");
  CHECK(strip_newlines("\n\n \n a\n") == " \n a");
  CHECK(strip_newlines("\n\n") == "");
  CHECK(before_first("a<x>b<x>c", "<x>") == "a");
  CHECK(after_last("a<x>b<x>c", "<x>") == "c");
  CHECK(after_last("abc", "<x>") == "abc");
  CHECK(python_json("\"\\\n\r\t\b\f\x01\x7f\u00e9</a>") ==
        "\"\\\"\\\\\\n\\r\\t\\b\\f\\u0001\x7f\u00e9</a>\"");
}
