// Model folders as people have them, and files that cannot be read.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/refusal.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/open_file.h"
#include "io/safetensors.h"
#include "load/model_path.h"
#include "tests/support/e2e.h"
#include "text/files/make_tokenizer.h"

namespace pagedinfer {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, std::string_view part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

std::string refusal_of(const std::string& model) {
  return message_of([&] { find_model(model, "/nowhere/bin/pagedinfer", "/nowhere/hub"); });
}

}  // namespace

TEST_CASE("of a folder of a hub cache the snapshot is used") {
  const TempDir dir;
  const std::string cache = dir / "models--org--some-model";
  const auto snapshot = [&](const std::string& name) { return cache + "/snapshots/" + name; };
  fs::create_directories(cache + "/refs");
  fs::create_directories(cache + "/snapshots");
  CHECK(has(refusal_of(cache), "without a snapshot"));

  fs::create_directories(cache + "/blobs");
  write_file(cache + "/blobs/1234", "{}");
  fs::create_directories(snapshot("aaa"));
  fs::create_symlink("../../blobs/1234", snapshot("aaa") + "/config.json");
  CHECK(find_model(cache, "") == snapshot("aaa"));

  fs::create_directories(snapshot("bbb"));
  fs::create_directories(snapshot("ccc"));
  const auto now = fs::file_time_type::clock::now();
  for (const auto& [name, age] : {std::pair{"aaa", 3}, {"bbb", 1}, {"ccc", 2}}) {
    fs::last_write_time(snapshot(name), now - std::chrono::seconds(age));
  }
  CHECK(find_model(cache, "") == snapshot("aaa"));  // the others are empty
  write_file(snapshot("ccc") + "/config.json", "{}");
  fs::create_symlink("../../blobs/none", snapshot("bbb") + "/config.json");
  CHECK(find_model(cache, "") == snapshot("ccc"));
  write_file(snapshot("aaa") + "/model.safetensors", "");
  fs::last_write_time(snapshot("aaa"), now - std::chrono::seconds(3));
  CHECK(find_model(cache, "") == snapshot("aaa"));
  fs::remove(snapshot("bbb") + "/config.json");
  for (const char* name : {"bbb", "ccc"}) {
    write_file(snapshot(name) + "/config.json", "{}");
    write_file(snapshot(name) + "/model.safetensors.index.json", "{}");
  }
  for (const auto& [name, age] : {std::pair{"aaa", 3}, {"bbb", 1}, {"ccc", 2}}) {
    fs::last_write_time(snapshot(name), now - std::chrono::seconds(age));
  }
  CHECK(find_model(cache, "") == snapshot("bbb"));
  write_file(cache + "/refs/main", "ccc\n");
  CHECK(find_model(cache, "") == snapshot("ccc"));
  CHECK(find_model(cache + "/", "") == snapshot("ccc"));
  write_file(cache + "/refs/main", "gone");
  CHECK(find_model(cache, "") == snapshot("bbb"));

  CHECK(name_of_model(snapshot("ccc")) == "org/some-model");
  CHECK(has(refusal_of(dir.path()),
            "has no config.json; it holds models--org--some-model, which "
            "is a model's folder in a hub cache"));
}

TEST_CASE("a model in a hub cache runs under the hub's name") {
  const TempDir dir;
  const std::string snapshot = dir / "models--org--story/snapshots/0123";
  fs::create_directories(snapshot);
  for (const auto& file : fs::directory_iterator(bundled_model())) {
    fs::create_symlink(file.path(), snapshot / file.path().filename());
  }
  CHECK(find_model("org/story", "", dir.path()) == snapshot);
  fs::create_directories(dir / "models--other--tale/snapshots");
  CHECK(has(message_of([&] { find_model("org/stories", "", dir.path()); }),
            ", which has org/story, other/tale. Models are not downloaded"));
  CHECK(has(message_of([&] { find_model("other/tale", "", dir.path()); }), "without a snapshot"));
  const std::string line =
      "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", \"body\": "
      "{\"prompt\": \"Nora\", \"max_tokens\": 2}}\n";
  for (const std::string& model : {dir / "models--org--story", std::string("org/story")}) {
    setenv("HF_HUB_CACHE", dir.path().c_str(), 1);
    const Answers answers = answer(line, {"--model", model});
    unsetenv("HF_HUB_CACHE");
    CHECK(answers.exit_code == 0);
    REQUIRE(answers.records.size() == 1);
    CHECK(answers.records[0].text("/response/body/model") == "org/story");
  }
}

TEST_CASE("the hub's cache is where the variables of the hub's client say") {
  const char* const names[] = {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
  std::map<std::string, std::string> before;
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) before[name] = value;
    setenv(name, fmt::format("/at/{}", name).c_str(), 1);
  }
  CHECK(hub_cache_folder() == "/at/HF_HUB_CACHE");
  unsetenv("HF_HUB_CACHE");
  CHECK(hub_cache_folder() == "/at/HF_HOME/hub");
  setenv("HF_HOME", "", 1);
  CHECK(hub_cache_folder() == "/at/XDG_CACHE_HOME/huggingface/hub");
  unsetenv("XDG_CACHE_HOME");
  CHECK(hub_cache_folder() == "/at/HOME/.cache/huggingface/hub");
  for (const char* name : names) {
    before.contains(name) ? setenv(name, before[name].c_str(), 1) : unsetenv(name);
  }
}

TEST_CASE("what is no folder with safetensors is told by what it is") {
  const TempDir dir;
  CHECK(has(refusal_of("org/some-model"),
            "--model org/some-model: no such folder, and it is not in the hub's cache "
            "/nowhere/hub, which does not exist. Models are not downloaded"));
  CHECK(has(refusal_of("org/some-model"), "hf download org/some-model"));
  CHECK(!has(refusal_of("./some-model"), "hf download"));
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  fs::create_directories("datasets/story");
  const std::string nothing = refusal_of("datasets/nothing");
  const std::string cached = refusal_of("datasets/models--org--x");
  fs::current_path(before);
  CHECK(
      has(nothing, "--model datasets/nothing: no such directory; datasets holds nothing of that"));
  CHECK(has(nothing, "hf download datasets/nothing"));
  CHECK(has(cached, "no such directory"));
  CHECK(!has(cached, "hf download"));
  CHECK(!has(refusal_of("/org/some-model"), "hf download"));

  write_file(dir / "a.gguf", "GGUF");
  CHECK(find_model(dir / "a.gguf", "") == dir / "a.gguf");
  CHECK(find_model(dir.path(), "") == dir / "a.gguf");
  const std::string missing = refusal_of("models/b-00001-of-00002.gguf");
  CHECK(has(missing, "--model models/b-00001-of-00002.gguf: no such file"));
  CHECK(!has(missing, "hf download"));
  write_file(dir / "b.safetensors", "");
  CHECK(has(refusal_of(dir / "b.safetensors"),
            "is a file; expected the name of a GGUF file, which ends in .gguf, or"));

  const auto checkpoint = [&](const std::string& name) {
    return message_of([&] { Checkpoint opened(dir / name); });
  };
  for (const auto& [folder, file, words] :
       {std::array{"bin", "pytorch_model.bin", "PyTorch's own format"},
        {"sharded", "pytorch_model-00001-of-00002.bin", "PyTorch's own format"},
        {"pt", "weights.pt", "PyTorch's own format"},
        {"meta", "consolidated.00.pth", "PyTorch's own format"},
        {"mistral", "consolidated.safetensors", "another layout"},
        {"lora", "adapter_config.json", "of a LoRA adapter: give this folder to --lora"}}) {
    const std::string path = dir / folder;
    fs::create_directory(path);
    write_file(path + "/README.md", "");
    CHECK(find_model(path, "") == path);
    CHECK(
        has(checkpoint(folder), "has neither model.safetensors nor model.safetensors.index.json"));
    CHECK(!has(checkpoint(folder), "; it holds"));
    write_file(path + "/" + file, "");
    for (const std::string& message : {refusal_of(path), checkpoint(folder)}) {
      CHECK(has(message, std::string("; it holds ") + file));
      CHECK(has(message, words));
    }
  }
}

TEST_CASE("a file that cannot be read is told with the reason") {
  const TempDir dir;
  const auto check = [&](const std::string& name, const std::string& reason) {
    const std::string path = dir / name;
    CHECK(has(message_of([&] { JsonFile file(path); }), path + ": " + reason));
    CHECK(has(message_of([&] { MappedFile file(path); }), path + ": " + reason));
  };
  check("missing", "cannot open: No such file or directory");
  fs::create_symlink("loop", dir / "loop");
  check("loop", "cannot open: Too many levels of symbolic links");
  fs::create_symlink("/nowhere/x", dir / "link");
  check("link", "cannot open: it is a link to '/nowhere/x', which is not there");
  fs::create_directory(dir / "folder");
  check("folder", "cannot read: it is a folder, not a regular file");
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  check("pipe", "cannot read: it is a pipe, not a regular file");
  fs::create_symlink("/dev/zero", dir / "device");
  check("device", "cannot read: it is a device, not a regular file");
  const std::string long_name(300, 'a');
  CHECK(
      has(message_of([&] { JsonFile file(dir / long_name); }), "cannot open: File name too long"));
  if (geteuid() == 0) {
    MESSAGE("SKIPPED: a file without permission, as this user has all of them");
    return;
  }
  write_file(dir / "closed", "{}");
  fs::permissions(dir / "closed", fs::perms::none);
  check("closed", "cannot open: Permission denied");
}

TEST_CASE("a file of a model that leads nowhere ends the start") {
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer.model",
        "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
        "chat_template.json", "model.safetensors", "model.safetensors.index.json"}) {
    for (const bool is_loop : {false, true}) {
      const TempDir dir;
      const std::string model = dir / "model", path = model + "/" + name;
      fs::copy(bundled_model(), model);
      fs::remove(path);
      fs::create_symlink(is_loop ? name : "../../blobs/1234", path);
      write_file(dir / "in.jsonl", "{\"prompt\": \"a\"}\n");
      const Ended ended = run({"--input", dir / "in.jsonl", "--model", model});
      CAPTURE(ended.err);
      CHECK(ended.exit_code == 1);
      CHECK(ended.err.starts_with("pagedinfer: " + path + ": cannot open: "));
      CHECK(names_in(dir.path()) == std::set<std::string>{"in.jsonl", "model"});
    }
  }
}

TEST_CASE("a shard whose name is too long is told") {
  const TempDir dir;
  write_file(dir / "model.safetensors.index.json",
             "{\"weight_map\": {\"a\": \"" + std::string(300, 'b') + "\"}}");
  const std::string message = message_of([&] { Checkpoint opened(dir.path()); });
  CHECK(has(message, "cannot open: File name too long"));
  CHECK(message.size() < 300);
}

TEST_CASE("a folder that may be searched and not listed is a model") {
  if (geteuid() != 0) {
    MESSAGE("SKIPPED: only root can become a user who may not list the folder");
    return;
  }
  const TempDir dir;
  fs::copy(bundled_model(), dir / "model");
  write_file(dir / "in.jsonl", "{\"prompt\": \"a\", \"max_tokens\": 2}\n");
  fs::permissions(dir / "model", fs::perms(0711));
  fs::permissions(dir.path(), fs::perms(0777));
  // Of another owner the folder is one that may be searched only.
  REQUIRE(chown((dir / "model").c_str(), 12345, 12345) == 0);
  const Ended ended = run_program(
      Words{"/usr/bin/env", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"} +
      command({"run", "--input", dir / "in.jsonl", "--model", dir / "model", "--quiet"}));
  if (has(ended.err, "setpriv") || has(ended.err, built_program())) {
    MESSAGE("SKIPPED: the program cannot be started as another user");
    return;
  }
  CAPTURE(ended.err);
  CHECK(ended.exit_code == 0);
}

TEST_CASE("a message quotes at most 200 bytes of what it found") {
  const std::string text(199, 'a');
  CHECK(shortened(text + "b") == text + "b");
  CHECK(shortened(text + "bc") == text + "b...");
  CHECK(shortened(text + "\xC3\xA4") == text + "...");
  CHECK(shortened("a\nb\x1B[31m") == "a?b?[31m");

  const TempDir dir;
  const std::string huge(100000, 'x');
  write_file(dir / "config.json", "{\"architectures\": [\"" + huge + "\"]}");
  write_file(dir / "a.json", "{\"" + huge + "\": 1}");
  const JsonFile file(dir / "a.json");
  for (const std::string& message :
       {message_of([&] { file.root().string(huge); }),
        message_of([&] { file.root().fail("key", "is wrong"); }), refusal_of(huge),
        refusal_of("./" + huge), run({"--input", "-", "--model", dir.path()}).err,
        run({"--input", "-", "--dtype", huge}).err, run({"--input", "-", "--cpu-isa", huge}).err,
        run({"--input", "-", "--chat-template", huge}).err,
        run({"--input", "-", "--kv-memory", std::string(3000, '9')}).err,
        run({"--input", "-", "--max-tokens", std::string(3000, '9')}).err,
        run({"--input", "-", "--temperature", huge}).err, run({"--input", "-", "--kv", huge}).err,
        run({"--input", "-", "--shard", huge}).err, run({"--input", "-", "--" + huge}).err,
        run({"--input", "-", "--quiet=" + huge}).err, run({"--input", huge}).err,
        run({"--input", "-", "--output", huge, "--stats", huge}).err,
        run({"--input", "-", "--output", huge}).err}) {
    CHECK(message.size() < 2500);
    CHECK(message.find(std::string(2000, '9')) == std::string::npos);
    CHECK(message.find(std::string(2000, 'x')) == std::string::npos);
  }
}

TEST_CASE("what a library says is told without the place in its source") {
  const TempDir dir;
  for (const std::string& bytes :
       {std::string(), std::string("no model"), std::string(300, '\n')}) {
    write_file(dir / "tokenizer.model", bytes);
    const std::string message = message_of([&] { make_tokenizer(dir.path()); });
    CHECK(has(message, dir / "tokenizer.model: is no SentencePiece model"));
    CHECK(!has(message, ".cc"));
    CHECK(!has(message, ".h("));
  }
}

}  // namespace pagedinfer
