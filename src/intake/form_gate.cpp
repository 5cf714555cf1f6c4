#include "intake/form_gate.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "intake/intake_item.h"

namespace pagedinfer {
namespace {

bool lacks_form(const IntakeItem& item) {
  const auto* const line = std::get_if<PreparedLine>(&item);
  return line != nullptr && !line->prompts.front().sampling.form.is_free();
}

Completion failed(PreparedLine line, const RequestError& error) {
  const Request& request = line.prompts.front();
  std::string where;
  if (line.prompts.size() > 1) where = "prompt[0]: ";
  if (request.sampling.form.kind != FormKind::kCall) {  // else the error names the tool
    where += request.tools.choice == ToolChoice::kNamed
                 ? fmt::format("tools[{}].function.parameters: ", request.tools.named)
                 : "the form of the answer: ";
  }
  return {.head = std::move(line.head),
          .num_prompt_tokens = static_cast<int>(request.prompt.size()),
          .error = {error.code, where + error.message}};
}

}  // namespace

Pull FormGate::next(Wait wait, EngineLine& line) {
  if (parts_.forms == nullptr) return parts_.pull(wait, line.item);
  Pull pulled = Pull::kNotArrived;
  while (!take_ready(line)) {
    if (!has_place()) return wait_for_form(wait, Pull::kNotArrived, line);
    pulled = parts_.pull(held_.empty() ? wait : Wait::kNo, line.item);
    if (pulled != Pull::kItem && held_.empty()) return pulled;
    if (pulled != Pull::kItem) return wait_for_form(wait, pulled, line);
    if (!lacks_form(line.item)) break;
    hold(line.item);
  }
  waits_ = false;
  return Pull::kItem;
}

// Takes the first line whose form is there.
bool FormGate::take_ready(EngineLine& line) {
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    std::optional<FormStore::Found> found = parts_.forms->take(it->form);
    if (!found) continue;
    num_tokens_ -= it->num_tokens;
    line.item = std::move(it->item);
    held_.erase(it);
    if (*found) {
      line.form = **std::move(found);
    } else {
      line.item = failed(std::get<PreparedLine>(std::move(line.item)), found->error());
    }
    return true;
  }
  return false;
}

bool FormGate::has_place() const {
  return std::ssize(held_) < kMaxLines && num_tokens_ < kMaxTokens;
}

void FormGate::hold(IntakeItem& item) {
  const int64_t num_tokens = memory_in_tokens(item);
  num_tokens_ += num_tokens;
  FormStore::Ticket form =
      parts_.forms->ask(std::get<PreparedLine>(item).prompts.front().sampling.form);
  held_.push_back({std::move(item), num_tokens, std::move(form)});
  waits_ = false;
}

// Waits for a form for a moment only, so that the caller can ask for later lines again.
Pull FormGate::wait_for_form(Wait wait, Pull pulled, EngineLine& line) {
  constexpr double kMoment = 0.02;
  const bool comes_later = pulled == Pull::kLater;
  if (wait == Wait::kForArrival || (wait == Wait::kForLine && comes_later)) {
    if (!std::exchange(waits_, true)) parts_.before_wait();
    parts_.forms->wait(kMoment);
    if (take_ready(line)) {
      waits_ = false;
      return Pull::kItem;
    }
  }
  return comes_later ? Pull::kLater : Pull::kNotArrived;
}

}  // namespace pagedinfer
