// Finds the model in a folder, or says what the folder holds instead.
#pragma once

#include <string>
#include <vector>

namespace pagedinfer {

// The names in a folder, ascending; empty if it cannot be listed.
std::vector<std::string> names_in_folder(const std::string& dir);

// For the error message about a folder without the files of a model: what it holds instead and what
// to do, beginning with "; ". "" if it holds nothing known.
std::string other_model_files(const std::string& dir);

// The snapshot to use of a hub cache folder (models--ORGANIZATION--NAME): the one that refs/main
// names, else the most complete one (config.json and weights, then config.json alone, then neither)
// and of these the newest. "" if `dir` is no such folder. Throws Error if it has no snapshot.
std::string find_snapshot(const std::string& dir);

}  // namespace pagedinfer
