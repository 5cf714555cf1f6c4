"""Which bodies tools/checks/check_format.py finds to need braces, whatever literals and comments hold."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/checks"))

from check_format import without_braces  # noqa: E402

GOOD = r'''
for (const char* text : {R"({"a": (1})", R"x(:-( )" )x"}) {
  if (text[0] == '(') return;
}
while (more()) step();  // :-(
if (a /* ( */ &&
    b == ")\"(") {
  x = 1'000'000;
} else if (x < 8'192) {
}
for (const char* text : {R"((
  ((
)", "//"}) {
}
'''
BAD = r'''
for (const char* text : {R"((()", ")"})
  take(text);
if (is_open(')',
            "//"))
  close();
else
  open();
while (f(
'''


def found(text):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(text)
        file.flush()
        return [line.split(":", 1)[1] for line in without_braces(pathlib.Path(file.name))]


def main():
    braces = " the body of this statement needs braces"
    assert found(GOOD) == [], found(GOOD)
    assert found(BAD) == [f"2:{braces}", f"4:{braces}", f"7:{braces}",
                          "9: the parentheses of this statement are not closed"], found(BAD)


if __name__ == "__main__":
    main()
