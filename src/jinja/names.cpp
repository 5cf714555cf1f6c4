#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "jinja/filters.h"
#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {
namespace {

using Load = ScopeStart::Load;

struct Function {
  FunctionShape& shape;
  Function* outer;
  size_t& num_copied;  // names that were copied, in the whole template
  std::set<std::string>& context_names;

  // Each `if` copies the names of its scope.
  void spend_names(size_t count, int line) {
    constexpr size_t kMax = 500'000;
    num_copied += count;
    if (num_copied <= kMax) return;
    throw TemplateError("the template has too many names and conditions", line,
                        TemplateError::Reason::kLimit);
  }
};

// The variables of one scope while its statements are looked through.
struct Symbols {
  std::map<std::string, int> slots = {};  // of the names that the scope knows
  std::map<int, Load> loads = {};         // by slot
  std::set<std::string> stored = {};
};

struct Found {
  const Function* function;
  int slot;
};

class Scope {
 public:
  Scope(Function& function, const Scope* outer) : function_(function), outer_(outer) {}

  Function& function() const { return function_; }

  std::optional<Found> find(const std::string& name) const {
    const auto slot = symbols_.slots.find(name);
    if (slot != symbols_.slots.end()) return Found{&function_, slot->second};
    return outer_ == nullptr ? std::nullopt : outer_->find(name);
  }
  // As seen from this scope's function. REQUIRES: the name is known.
  Variable variable(const std::string& name) const { return variable(*find(name)); }

  int declare_argument(const std::string& name) {
    symbols_.stored.insert(name);
    return define(name, {.from = Load::From::kArgument});
  }
  void load(const std::string& name) {
    if (find(name)) return;
    define(name, {.from = Load::From::kContext, .name = name});
    function_.context_names.insert(name);
  }
  void store(const std::string& name) {
    symbols_.stored.insert(name);
    if (symbols_.slots.count(name) > 0) return;
    const auto outer = outer_ == nullptr ? std::nullopt : outer_->find(name);
    if (outer) {
      define(name, {.from = Load::From::kOuter, .outer = variable(*outer)});
    } else {
      define(name, {.from = Load::From::kNothing});
    }
  }

  // Looks through branches of a statement in that line, of which one runs: each begins with what is
  // known now. What some branch assigns to begins as what it is outside.
  template <class... Branches>
  void branch(int line, Branches... branches) {
    function_.spend_names(symbols_.slots.size(), line);
    const Symbols before = symbols_;
    Symbols after = before;
    std::set<std::string> stored;
    const auto look = [&](const auto& look_through) {
      symbols_ = before;
      look_through();
      for (const auto& [name, slot] : symbols_.slots) after.slots[name] = slot;
      for (const auto& [slot, load] : symbols_.loads) after.loads[slot] = load;
      stored.insert(symbols_.stored.begin(), symbols_.stored.end());
    };
    (look(branches), ...);
    symbols_ = std::move(after);
    for (const std::string& name : stored) {
      if (before.stored.count(name) > 0) continue;
      symbols_.stored.insert(name);
      const Found found = *find(name);
      const auto outer = outer_ == nullptr ? std::nullopt : outer_->find(name);
      symbols_.loads[found.slot] =
          outer ? Load{.slot = found.slot, .from = Load::From::kOuter, .outer = variable(*outer)}
                : Load{.slot = found.slot, .from = Load::From::kContext, .name = name};
    }
  }

  ScopeStart start() const {
    ScopeStart result;
    for (const auto& [slot, load] : symbols_.loads) result.loads.push_back(load);
    return result;
  }

 private:
  Variable variable(const Found& found) const {
    Variable result{.slot = found.slot};
    for (const Function* at = &function_; at != found.function; at = at->outer) {
      ++result.functions_out;
    }
    return result;
  }
  int define(const std::string& name, Load load) {
    const auto [place, is_new] = all_slots_.try_emplace(name, function_.shape.num_slots);
    if (is_new) ++function_.shape.num_slots;
    load.slot = place->second;
    symbols_.slots[name] = load.slot;
    symbols_.loads[load.slot] = std::move(load);
    return place->second;
  }

  Function& function_;
  const Scope* outer_;
  Symbols symbols_ = {};
  std::map<std::string, int> all_slots_ = {};  // also of names that another branch knows
};

bool mentions(const Expr& expr, std::string_view name) {
  if (expr.kind == ExprKind::kName && !expr.store && expr.name == name) return true;
  bool found = false;
  for_children(expr, [&](const Expr& child) { found = found || mentions(child, name); });
  return found;
}

bool mentions(const Block& block, std::string_view name);
bool mentions(const Statement& statement, std::string_view name) {
  const auto in = [&](const ExprPtr& expr) { return expr && mentions(*expr, name); };
  for (const ExprPtr& expr : statement.exprs) {
    if (in(expr)) return true;
  }
  for (const auto& branch : statement.branches) {
    if (mentions(*branch, name)) return true;
  }
  return in(statement.expr) || in(statement.test) || in(statement.target) ||
         mentions(statement.body, name) || mentions(statement.otherwise, name);
}
bool mentions(const Block& block, std::string_view name) {
  for (const auto& statement : block) {
    if (mentions(*statement, name)) return true;
  }
  return false;
}

class Resolver {
 public:
  void resolve(SyntaxTree& tree) {
    Function function{tree.function, nullptr, num_copied_, context_names_};
    Scope scope(function, nullptr);
    look(scope, tree.body);
    resolve(scope, tree.body, false);
    tree.scope = scope.start();
    tree.context_names = std::move(context_names_);
  }

 private:
  // Looking through a scope's statements: which names does it load and store, in which order?
  // Scopes inside are left out.

  void look(Scope& scope, const Expr& expr) {
    if (expr.kind == ExprKind::kName) {
      if (expr.store) {
        scope.store(expr.name);
      } else {
        scope.load(expr.name);
      }
    }
    for_children(expr, [&](const Expr& child) { look(scope, child); });
  }
  void look(Scope& scope, const ExprPtr& expr) {
    if (expr) look(scope, *expr);
  }
  void look(Scope& scope, const std::vector<ExprPtr>& exprs) {
    for (const ExprPtr& expr : exprs) look(scope, expr);
  }
  void look(Scope& scope, const Block& block) {
    for (const auto& statement : block) look(scope, *statement);
  }
  void look(Scope& scope, const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::kOutput:
      case StatementKind::kWith: return look(scope, statement.exprs);
      case StatementKind::kFor:
      case StatementKind::kCallBlock:
      case StatementKind::kFilterBlock: return look(scope, statement.expr);
      case StatementKind::kSet: look(scope, statement.expr); return look(scope, statement.target);
      case StatementKind::kSetBlock:
      case StatementKind::kMacro: return look(scope, statement.target);
      case StatementKind::kIf:
        look(scope, statement.expr);
        return scope.branch(
            statement.line, [&] { look(scope, statement.body); },
            [&] {
              for (const auto& branch : statement.branches) look(scope, *branch);
            },
            [&] { look(scope, statement.otherwise); });
      default: return;
    }
  }

  // The names of a target that a scope begins with.
  void declare(Scope& scope, const Expr& target) {
    if (target.kind == ExprKind::kName) scope.declare_argument(target.name);
    for (const ExprPtr& item : target.items) declare(scope, *item);
  }

  // Resolving: `soft` is whether an unknown filter fails only when it is reached.

  void resolve(const Scope& scope, Expr& expr, bool soft) {
    if (expr.kind == ExprKind::kName) {
      if (expr.store && expr.name == "loop" && num_loops_ > 0) {
        throw TemplateError("`loop` cannot be assigned to in a loop", expr.line);
      }
      expr.variable = scope.variable(expr.name);
    }
    if (!soft && expr.kind == ExprKind::kFilter && !is_filter(expr.name)) {
      throw TemplateError(fmt::format("there is no filter '{}'", expr.name), expr.line);
    }
    if (!soft && expr.kind == ExprKind::kTest && !is_test(expr.name)) {
      throw TemplateError(fmt::format("there is no test '{}'", expr.name), expr.line);
    }
    const bool soft_inside = soft || expr.kind == ExprKind::kConditional;
    for_children(expr,
                 [&](const Expr& child) { resolve(scope, const_cast<Expr&>(child), soft_inside); });
  }
  void resolve(const Scope& scope, const ExprPtr& expr, bool soft) {
    if (expr) resolve(scope, *expr, soft);
  }
  void resolve(const Scope& scope, const std::vector<ExprPtr>& exprs, bool soft) {
    for (const ExprPtr& expr : exprs) resolve(scope, expr, soft);
  }
  void resolve(Scope& scope, Block& block, bool soft) {
    for (const auto& statement : block) resolve(scope, *statement, soft);
  }

  void resolve(Scope& scope, Statement& statement, bool soft) {
    switch (statement.kind) {
      case StatementKind::kOutput: return resolve(scope, statement.exprs, soft);
      case StatementKind::kSet:
        resolve(scope, statement.expr, soft);
        return resolve(scope, statement.target, soft);
      case StatementKind::kIf:
        resolve(scope, statement.expr, true);
        resolve(scope, statement.body, true);
        for (const auto& branch : statement.branches) resolve(scope, *branch, true);
        return resolve(scope, statement.otherwise, true);
      case StatementKind::kFor: return resolve_loop(scope, statement, soft);
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock: return resolve_capture(scope, statement, soft);
      case StatementKind::kWith: return resolve_with(scope, statement, soft);
      case StatementKind::kMacro:
        resolve(scope, statement.target, soft);
        return resolve_function(scope, statement);
      case StatementKind::kCallBlock:
        resolve(scope, statement.expr, soft);
        return resolve_function(scope, statement);
      case StatementKind::kGeneration: return resolve_function(scope, statement);
      default: return;
    }
  }

  void resolve_loop(Scope& scope, Statement& loop, bool soft) {
    Function own{loop.function, &scope.function(), num_copied_, context_names_};
    Function& function = loop.recursive ? own : scope.function();
    if (loop.recursive || loop.test) {
      for (Function* at = &function; at != nullptr; at = at->outer) at->shape.may_be_kept = true;
    }
    resolve(scope, loop.expr, soft);
    ++num_loops_;
    if (loop.test) {
      Scope test(function, &scope);
      declare(test, *loop.test_target);
      look(test, loop.test);
      resolve(test, loop.test_target, false);
      resolve(test, loop.test, false);
      loop.test_scope = test.start();
    }
    Scope body(function, &scope);
    loop.loop_slot = body.declare_argument("loop");
    declare(body, *loop.target);
    look(body, loop.body);
    resolve(body, loop.target, false);
    resolve(body, loop.body, false);
    loop.scope = body.start();
    Scope otherwise(function, &scope);
    look(otherwise, loop.otherwise);
    resolve(otherwise, loop.otherwise, false);
    loop.else_scope = otherwise.start();
    --num_loops_;
  }

  void resolve_capture(Scope& scope, Statement& statement, bool soft) {
    Scope inner(scope.function(), &scope);
    look(inner, statement.body);
    look(inner, statement.expr);
    resolve(inner, statement.body, false);
    resolve(inner, statement.expr, false);
    resolve(scope, statement.target, soft);
    statement.scope = inner.start();
  }

  void resolve_with(Scope& scope, Statement& statement, bool soft) {
    resolve(scope, statement.exprs, soft);
    Scope inner(scope.function(), &scope);
    for (const ExprPtr& target : statement.targets) declare(inner, *target);
    look(inner, statement.body);
    resolve(inner, statement.targets, false);
    resolve(inner, statement.body, false);
    statement.scope = inner.start();
  }

  void resolve_function(Scope& scope, Statement& statement) {
    for (Function* at = &scope.function(); at != nullptr; at = at->outer) {
      at->shape.may_be_kept = true;
    }
    Function function{statement.function, &scope.function(), num_copied_, context_names_};
    Scope inner(function, &scope);
    for (const ExprPtr& parameter : statement.targets) inner.declare_argument(parameter->name);
    look(inner, statement.exprs);
    look(inner, statement.body);
    const auto special = [&](const char* name) {
      for (size_t i = 0; i < statement.targets.size(); ++i) {
        if (statement.targets[i]->name != name) continue;
        const bool has_default = i + statement.exprs.size() >= statement.targets.size();
        if (std::string_view(name) == "caller" && !has_default && mentions(statement.body, name)) {
          throw TemplateError("the parameter `caller` needs a default", statement.line);
        }
        return -1;
      }
      return mentions(statement.body, name) ? inner.declare_argument(name) : -1;
    };
    statement.caller_slot = special("caller");
    statement.kwargs_slot = special("kwargs");
    statement.varargs_slot = special("varargs");
    for (const ExprPtr& parameter : statement.targets) {
      parameter->variable = inner.variable(parameter->name);
    }
    resolve(inner, statement.exprs, false);
    resolve(inner, statement.body, false);
    statement.scope = inner.start();
  }

  int num_loops_ = 0;
  size_t num_copied_ = 0;
  std::set<std::string> context_names_ = {};
};

}  // namespace

void resolve_names(SyntaxTree& tree) { Resolver().resolve(tree); }

}  // namespace pagedinfer::jinja
