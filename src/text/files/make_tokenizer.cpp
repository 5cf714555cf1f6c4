#include "text/files/make_tokenizer.h"

#include <fmt/format.h>

#include "core/error.h"
#include "io/json_file.h"
#include "io/open_file.h"
#include "text/files/spm.h"
#include "text/files/tokenizer_config.h"
#include "text/files/tokenizer_json.h"

namespace pagedinfer {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& model_dir) {
  const std::string sentencepiece = model_dir + "/tokenizer.model";
  const std::string json = model_dir + "/tokenizer.json";
  if (file_exists(json)) {
    BpeParts parts = read_tokenizer_json(JsonFile(json));
    apply_config(read_tokenizer_config(model_dir), parts);
    return make_bpe_tokenizer(std::move(parts));
  }
  if (!file_exists(sentencepiece)) return nullptr;
  return make_sentencepiece_tokenizer(sentencepiece, read_tokenizer_config(model_dir));
}

void check_vocabulary(const std::string& model_dir, const Tokenizer& tokenizer, int vocab) {
  if (tokenizer.vocab_size() <= vocab) return;
  throw Error(fmt::format("{}: the tokenizer has {} tokens, config.json only {} (vocab_size)",
                          model_dir, tokenizer.vocab_size(), vocab));
}

}  // namespace pagedinfer
