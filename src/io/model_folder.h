// What a folder holds where the files of a model are expected.
#pragma once

#include <string>
#include <vector>

namespace pagedinfer {

// The names in a folder, ascending; none where it may not be listed.
std::vector<std::string> names_in_folder(const std::string& dir);

// Of a folder that lacks what a model needs: what it holds instead and what helps, behind "; ".
// "" where it holds nothing that is known.
std::string other_model_files(const std::string& dir);

// The snapshot of a hub cache folder (models--ORGANIZATION--NAME): the one that refs/main names,
// else the newest of those that hold most of a model: config.json and weights before config.json
// alone, and that before neither. "" if `dir` is no such folder. Throws Error where it has no
// snapshot.
std::string find_snapshot(const std::string& dir);

}  // namespace pagedinfer
