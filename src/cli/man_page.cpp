#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "cli/pages.h"
#include "core/build_facts.h"
#include "core/exit_codes.h"

namespace pagedinfer {
namespace {

constexpr std::string_view kFiles = R"(.SH FILES
.TP
.IR NAME .completions.jsonl
The records, beside the input
.IR NAME .jsonl.
.TP
.IR NAME .stats.jsonl ", " NAME .summary.json
Statistics of each request, and of the run.
.TP
.IR OUTPUT .part
The state of a run that has not ended.
.B \-\-resume
goes on from there.
.TP
.IR OUTPUT .run
The state of a run that has ended.
.B pagedinfer merge
reads it, and
.B \-\-resume
does when the input has grown.
.TP
.I PREFIX/share/pagedinfer
The bundled models, and the prompts of a first run, where the program is
.IR PREFIX/bin/pagedinfer .
.TP
.I ~/.cache/pagedinfer
The fastest algorithms for matrix products on a GPU.
.SH ENVIRONMENT
.B HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME
say where the hub's cache is, for
.B \-\-model
.IR ORG/NAME .
No other variable changes what the program does.
.SH EXAMPLES
.EX
pagedinfer run \-\-input prompts.jsonl
pagedinfer run \-\-input prompts.jsonl \-\-model DIR \-\-resume
pagedinfer run \-\-input prompts.jsonl \-\-shard 0/2
pagedinfer run \-\-input prompts.jsonl \-\-shard 1/2
pagedinfer merge \-\-output all.jsonl prompts.?\-of\-2.completions.jsonl
.EE
)";

// Text that a formatter shows as it is.
std::string roff_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else {
      out += c;
    }
  }
  return out;
}

// A line of text: one that begins with a dot would be a macro.
std::string paragraph(std::string_view text) {
  return fmt::format("{}{}\n", text.starts_with('.') ? "\\&" : "", roff_text(text));
}

std::string bold_names(const FlagOutline& flag) {
  return fmt::format("\\fB{}\\fR", roff_text(fmt::format("{}", fmt::join(flag.names, ", "))));
}

std::string entry_of(const FlagOutline& flag) {
  const std::string value =
      flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_text(flag.value));
  const std::string unless_given =
      flag.unless_given.empty() ? "" : fmt::format(" [{}]", roff_text(flag.unless_given));
  return fmt::format(".TP\n{}{}{}\n{}", bold_names(flag), value, unless_given,
                     paragraph(flag.help));
}

// A subcommand's section. Flags that are the same as in `common` are named only.
std::string section_of(const CommandOutline& command, const CommandOutline* common) {
  std::string text = fmt::format(".SH {}\n", command.name.empty() ? "OPTIONS" : command.name);
  std::string heading, same;
  if (!command.name.empty()) text += paragraph(command.help);
  for (const FlagOutline& flag : command.flags) {
    if (common != nullptr && std::ranges::find(common->flags, flag) != common->flags.end()) {
      same += fmt::format("{}{}", same.empty() ? "" : ", ", bold_names(flag));
      continue;
    }
    if (flag.group != heading) {
      heading = flag.group;
      text += fmt::format(".SS {}\n", roff_text(heading));
    }
    text += entry_of(flag);
  }
  if (!same.empty()) {
    text += fmt::format(".SS Flags that are as in {}\n{}.\n", common->name, same);
  }
  return command.footer.empty() ? text : text + ".PP\n" + paragraph(command.footer);
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\nThe codes of bench are those of run.\n", command;
  for (const ExitCodeRow& row : kExitCodes) {
    if (row.command != command) {
      command = row.command;
      text += fmt::format(".SS {}\n", command);
    }
    text += fmt::format(".TP\n.B {}\n{}", row.code, paragraph(row.meaning));
  }
  return text;
}

}  // namespace

std::string man_page(const Outline& outline) {
  std::string text = fmt::format(
      ".TH PAGEDINFER 1 \"\" \"pagedinfer {}\" \"User Commands\"\n"
      ".SH NAME\npagedinfer \\- complete a file of prompts with a language model\n"
      ".SH SYNOPSIS\n",
      build_facts().version);
  for (const CommandOutline& command : outline.commands) {
    const bool has_words = std::ranges::any_of(command.flags, [](const FlagOutline& flag) {
      return !flag.names.front().starts_with('-');
    });
    text += fmt::format("{}.B pagedinfer {}\n.RI [ flags {}\n",
                        &command == &outline.commands.front() ? "" : ".br\n", command.name,
                        has_words ? "\"] \" files" : "]");
  }
  text +=
      ".SH DESCRIPTION\npagedinfer reads prompts, one JSON object a line, runs them in batches on "
      "a CPU or a GPU, and writes completions and statistics as JSON lines.\n";
  text += section_of(outline.program, nullptr);
  const CommandOutline& first = outline.commands.front();
  for (const CommandOutline& command : outline.commands) {
    text += section_of(command, &command == &first ? nullptr : &first);
  }
  return text + exit_status() + std::string(kFiles);
}

}  // namespace pagedinfer
