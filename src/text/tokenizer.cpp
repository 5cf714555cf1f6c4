#include "text/tokenizer.h"

#include <filesystem>

#include "io/json_file.h"
#include "text/tokenizer_json.h"

namespace pagedinfer {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir) {
  const std::string sentencepiece = model_dir + "/tokenizer.model";
  const std::string json = model_dir + "/tokenizer.json";
  if (std::filesystem::exists(json)) return make_bpe_tokenizer(read_tokenizer_json(JsonFile(json)));
  if (!std::filesystem::exists(sentencepiece)) return nullptr;
  bool add_bos = true;
  if (const std::string path = model_dir + "/tokenizer_config.json";
      std::filesystem::exists(path)) {
    const JsonFile config(path);
    add_bos = config.root().find_bool("add_bos_token").value_or(true);
  }
  return make_sentencepiece_tokenizer(sentencepiece, add_bos);
}

}  // namespace pagedinfer
