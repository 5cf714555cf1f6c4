// Lengths and arrivals of real requests to a service, from a CSV file.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace pagedinfer {

struct TraceRow {
  double time = 0;  // seconds since the first row
  int prompt_tokens = 0, output_tokens = 0;
};

// Reads rows of TIMESTAMP,ContextTokens,GeneratedTokens, as the Azure LLM inference traces have
// them: 2023-11-16 18:17:03.9799600,4808,10. The first line names the columns. Reads `count` rows,
// not the rest. Throws Error, naming `name` and the line, for a row of another form, for a time
// before the time of the row above, and if there are fewer rows.
std::vector<TraceRow> read_trace(std::istream& from, const std::string& name, int count);

// Reads the rows of a file. Throws Error as above, and if the file cannot be read.
std::vector<TraceRow> read_trace(const std::string& path, int count);

}  // namespace pagedinfer
