#include "text/chat/chat_format.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/check.h"
#include "core/error.h"
#include "core/hash.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/open_file.h"
#include "text/files/tokenizer_config.h"

namespace pagedinfer {
namespace {

// The text of a template and the file of the model directory that holds it.
struct FoundTemplate {
  std::string file, text;
};

struct KnownText {
  uint64_t hash;
  std::string_view name;
};

constexpr KnownText kKnownTexts[] = {
    {0x9c4bb0d6ff9cdf7e, "chatml"},        // the one of this project's tests
    {0x56f952d16280621a, "chatml"},        // as ChatML is most often written
    {0x6f993119a5b4ad43, "chatml"},        // with newlines as escapes
    {0x431f1c2ab25abed4, "chatml"},        // with a default for add_generation_prompt
    {0xb47d046e0fa005f4, "chatml"},        // with both
    {0x1a35bb700cc40c82, "gemma2"},        // gemma-2-2b-it
    {0x5137c4e896e26596, "gemma3"},        // gemma-3-1b-it
    {0x2f9681b4f17f6b0e, "llama3"},        // Llama-3.1-8B-Instruct
    {0xd2002478a83fd114, "llama3"},        // Llama-3.2-3B-Instruct
    {0x1b3329e364e2b02d, "mistral-nemo"},  // Mistral-Nemo-Instruct-2407
    {0xae63b59b7653417e, "qwen2.5"},       // Qwen2.5-7B-Instruct
    {0x686d03c97424a55a, "qwen3"},         // Qwen3
    {0x6f772b6e12eb69a9, "qwen3"},         // Qwen3 tests the type of the content
};

std::optional<std::string> template_in(const JsonObject& root, const std::string& file) {
  namespace dom = simdjson::dom;
  dom::array list;
  if (root.fields()["chat_template"].get(list) != simdjson::SUCCESS) {
    return root.find_string("chat_template");
  }
  for (const dom::element named : list) {
    std::string_view name, text;
    if (named["name"].get(name) == simdjson::SUCCESS && name == "default" &&
        named["template"].get(text) == simdjson::SUCCESS) {
      return std::string(text);
    }
  }
  throw Error(file + ": 'chat_template' is a list without one that is named \"default\"");
}

std::optional<FoundTemplate> find_template(const std::string& model_dir) {
  if (const std::string path = model_dir + "/chat_template.jinja"; file_exists(path)) {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    return FoundTemplate{path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
  for (const char* name : {"/tokenizer_config.json", "/chat_template.json"}) {
    const std::string path = model_dir + name;
    if (!file_exists(path)) continue;
    if (auto text = template_in(JsonFile(path).root(), path)) return FoundTemplate{path, *text};
  }
  return std::nullopt;
}

}  // namespace

uint64_t template_hash(std::string_view template_text) {
  std::string text;
  for (size_t i = 0; i < template_text.size(); ++i) {
    if (template_text[i] != '\r') {
      text += template_text[i];
    } else if (i + 1 == template_text.size() || template_text[i + 1] != '\n') {
      text += '\n';
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return hash_bytes(0, text);
}

const ChatTemplate* recognize_chat_template(std::string_view template_text) {
  const uint64_t hash = template_hash(template_text);
  const auto* const found = std::find_if(std::begin(kKnownTexts), std::end(kKnownTexts),
                                         [&](const KnownText& text) { return text.hash == hash; });
  return found == std::end(kKnownTexts) ? nullptr : find_chat_template(found->name);
}

std::string_view chat_template_name(const ChatFormat& format) {
  return format.known == nullptr ? "none" : format.known->name;
}

ChatFormat read_chat_format(const std::string& model_dir, std::string_view asked,
                            const std::string& date) {
  const TokenizerConfig config = read_tokenizer_config(model_dir);
  ChatFormat format = {.words = {.bos = config.bos, .eos = config.eos, .date = date}};
  if (asked == "none") {
    format.problem = "--chat-template none: there is no template for messages";
  } else if (!asked.empty()) {
    format.known = find_chat_template(asked);
    CHECK(format.known != nullptr);
  } else if (const auto found = find_template(model_dir); !found) {
    format.problem =
        fmt::format("the model has no chat template; --chat-template says which one to use: {}",
                    chat_template_names());
  } else if (format.known = recognize_chat_template(found->text); format.known == nullptr) {
    format.problem = fmt::format(
        "the model's chat template (hash {:016x}, in {}) is not one of those known; "
        "--chat-template says which one to use instead: {}",
        template_hash(found->text), std::filesystem::path(found->file).filename().string(),
        chat_template_names());
  }
  return format;
}

}  // namespace pagedinfer
