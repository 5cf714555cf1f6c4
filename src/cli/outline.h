// The command line as data, for pages that are made of it: the man page and completions of shells.
#pragma once

#include <string>
#include <vector>

namespace pagedinfer {

struct FlagOutline {
  std::vector<std::string> names;  // "-o", "--output"; or "SHARD", for words without a flag
  std::string value;               // placeholder, as "FILE|-"; "": the flag has no value
  std::string unless_given;        // the default; "": there is none to show
  std::string group;               // heading
  std::string help;                // sentences

  // The alternatives of the placeholder: "FILE" and "-".
  std::vector<std::string> values() const;
  bool operator==(const FlagOutline&) const = default;
};

struct CommandOutline {
  std::string name, help;  // the name of the program itself is ""
  std::vector<FlagOutline> flags;
  std::string footer;  // sentences behind the flags, without the exit codes
};

struct Outline {
  CommandOutline program;
  std::vector<CommandOutline> commands;  // in the order of --help
};

// The command line of this program.
Outline outline_program();

}  // namespace pagedinfer
