#include "jinja/template.h"

#include <utility>

#include "jinja/evaluator.h"
#include "jinja/names.h"
#include "jinja/parser.h"

namespace pagedinfer::jinja {

Template Template::parse(std::string_view source) {
  Template result;
  result.tree_ = jinja::parse(source);
  resolve_names(result.tree_);
  return result;
}

Rendered Template::render(const Dict& variables, const DateTime& now, const Limits& limits) const {
  Budget budget(limits);
  Runtime runtime(budget, now);
  MarkedText out = evaluate(tree_, variables, runtime);
  return {std::move(out.text), std::move(out.marks)};
}

}  // namespace pagedinfer::jinja
