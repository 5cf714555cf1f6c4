#include "jinja/template.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "jinja/filters.h"
#include "jinja/loop_object.h"
#include "jinja/python_text.h"

namespace pagedinfer::jinja {
namespace {

// The variables of one call of a function.
struct Frame {
  std::vector<Value> slots;
  Frame* outer;
};

enum class Flow { kNext, kBreak, kContinue };

class Evaluator {
 public:
  Evaluator(const Dict& variables, Runtime& runtime)
      : variables_(variables), runtime_(runtime), budget_(runtime.budget) {}

  MarkedText render(const SyntaxTree& tree) {
    Frame frame{std::vector<Value>(static_cast<size_t>(tree.function.num_slots)), nullptr};
    enter(tree.scope, frame);
    MarkedText out;
    run(tree.body, frame, out);
    return out;
  }

 private:
  // Variables.

  static Value& slot(const Variable& variable, Frame& frame) {
    Frame* at = &frame;
    for (int i = 0; i < variable.functions_out; ++i) at = at->outer;
    return at->slots[static_cast<size_t>(variable.slot)];
  }

  Value from_context(const std::string& name) {
    if (name == "self") return Value::of(Kind::kFunction, new FunctionObject(kReference, name));
    if (const Value* value = variables_.find(name)) return *value;
    return global_function(runtime_, name);
  }

  void enter(const ScopeStart& scope, Frame& frame) {
    budget_.spend_steps(scope.loads.size());
    for (const ScopeStart::Load& load : scope.loads) {
      Value& to = frame.slots[static_cast<size_t>(load.slot)];
      switch (load.from) {
        case ScopeStart::Load::From::kArgument: break;
        case ScopeStart::Load::From::kContext: to = from_context(load.name); break;
        case ScopeStart::Load::From::kOuter: to = slot(load.outer, frame); break;
        case ScopeStart::Load::From::kNothing: to = Value(); break;
      }
    }
  }

  void assign(const Expr& target, const Value& value, Frame& frame) {
    if (target.kind == ExprKind::kName) {
      slot(target.variable, frame) = value;
    } else if (target.kind == ExprKind::kAttribute) {
      assign_attribute(target, value, frame);
    } else {
      const std::vector<Value> items = all_items(runtime_, value);
      if (items.size() != target.items.size()) {
        throw TemplateError(
            fmt::format("{} values for {} names", items.size(), target.items.size()), target.line);
      }
      for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], frame);
    }
  }
  void assign_attribute(const Expr& target, const Value& value, Frame& frame) {
    const Value object = slot(target.left->variable, frame);
    if (!object.is(Kind::kNamespace)) {
      throw TemplateError("attributes can be assigned to namespaces only", target.line);
    }
    if (target.name.starts_with('_')) {
      throw TemplateError("attributes of a namespace cannot begin with an underscore", target.line);
    }
    budget_.spend_values(1);
    object.name_space().attributes.set(target.name, value);
  }
  // Fails before the value is evaluated, as jinja2 does.
  void check_target(const Expr& target, Frame& frame) {
    if (target.kind == ExprKind::kAttribute) {
      if (!slot(target.left->variable, frame).is(Kind::kNamespace)) {
        throw TemplateError("attributes can be assigned to namespaces only", target.line);
      }
    }
    for (const ExprPtr& item : target.items) check_target(*item, frame);
  }

  // Statements.

  void add(MarkedText& out, const MarkedText& text) {
    budget_.spend_reading(text.text.size());
    budget_.spend_growth(out.text.size(), text.text.size());
    budget_.spend_memory(text.marks.size() * sizeof(Span));
    out.add(text);
  }

  Flow run(const Block& block, Frame& frame, MarkedText& out) {
    for (const auto& statement : block) {
      const Flow flow = run(*statement, frame, out);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow run(const Statement& statement, Frame& frame, MarkedText& out) {
    const Budget::Level level(budget_);
    budget_.spend_steps();
    try {
      return run_any(statement, frame, out);
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = statement.line;
      throw;
    }
  }

  Flow run_any(const Statement& statement, Frame& frame, MarkedText& out) {
    switch (statement.kind) {
      case StatementKind::kOutput: output(statement, frame, out); break;
      case StatementKind::kFor: return run_for(statement, frame, out);
      case StatementKind::kIf: return run_if(statement, frame, out);
      case StatementKind::kSet:
        check_target(*statement.target, frame);
        assign(*statement.target, evaluate(*statement.expr, frame), frame);
        break;
      case StatementKind::kSetBlock:
      case StatementKind::kFilterBlock: return run_captured(statement, frame, out);
      case StatementKind::kMacro:
        assign(*statement.target, make_function(statement, frame), frame);
        break;
      case StatementKind::kCallBlock: call_with_block(statement, frame, out); break;
      case StatementKind::kGeneration: add(out, invoke(statement, frame, {}).marked()); break;
      case StatementKind::kWith: return run_with(statement, frame, out);
      case StatementKind::kBreak: return Flow::kBreak;
      case StatementKind::kContinue: return Flow::kContinue;
      case StatementKind::kUnsupported:
        throw TemplateError(fmt::format("the tag '{}' is not supported", statement.name));
    }
    return Flow::kNext;
  }

  void output(const Statement& statement, Frame& frame, MarkedText& out) {
    for (const ExprPtr& expr : statement.exprs) {
      if (expr->kind == ExprKind::kConstant && expr->constant.is_string()) {
        budget_.spend_steps();
        add(out, expr->constant.marked());
        continue;
      }
      const Value value = evaluate(*expr, frame);
      if (value.is_string()) {
        add(out, value.marked());
      } else {
        try {
          add(out, to_text(value, budget_));
        } catch (TemplateError& error) {
          if (error.line == 0) error.line = expr->line;
          throw;
        }
      }
    }
  }

  Flow run_if(const Statement& statement, Frame& frame, MarkedText& out) {
    if (is_true(evaluate(*statement.expr, frame))) return run(statement.body, frame, out);
    for (const auto& branch : statement.branches) {
      if (is_true(evaluate(*branch->expr, frame))) return run(branch->body, frame, out);
    }
    return run(statement.otherwise, frame, out);
  }

  Flow run_captured(const Statement& statement, Frame& frame, MarkedText& out) {
    enter(statement.scope, frame);
    MarkedText text;
    const Flow flow = run(statement.body, frame, text);
    if (flow != Flow::kNext) return flow;
    Value value = runtime_.text(std::move(text));
    if (statement.expr) value = filter(*statement.expr, frame, &value);
    if (statement.kind == StatementKind::kSetBlock) {
      check_target(*statement.target, frame);
      assign(*statement.target, value, frame);
    } else {
      add(out, to_text(value, budget_));
    }
    return Flow::kNext;
  }

  Flow run_with(const Statement& statement, Frame& frame, MarkedText& out) {
    enter(statement.scope, frame);
    for (size_t i = 0; i < statement.targets.size(); ++i) {
      assign(*statement.targets[i], evaluate(*statement.exprs[i], frame), frame);
    }
    return run(statement.body, frame, out);
  }

  // Loops.

  Flow run_for(const Statement& loop, Frame& frame, MarkedText& out) {
    const Value iterable = evaluate(*loop.expr, frame);
    if (!loop.recursive) return run_loop(loop, frame, iterable, 0, out);
    add(out, run_recursive(loop, frame, iterable, 0).marked());
    return Flow::kNext;
  }

  Value run_recursive(const Statement& loop, Frame& outer, const Value& iterable, int64_t depth) {
    const Budget::Level level(budget_);
    Frame& frame = kept_frame(loop.function, outer);
    MarkedText out;
    run_loop(loop, frame, iterable, depth, out);
    return runtime_.text(std::move(out));
  }

  Flow run_loop(const Statement& loop, Frame& frame, const Value& iterable, int64_t depth,
                MarkedText& out) {
    std::function<Value()> next = [items = Items(runtime_, iterable)]() mutable {
      return items.next();
    };
    if (loop.test) {
      next = [this, &loop, &frame, all = std::move(next)] {
        for (Value item = all(); !item.is_missing(); item = all()) {
          enter(loop.test_scope, frame);
          assign(*loop.test_target, item, frame);
          if (is_true(evaluate(*loop.test, frame))) return item;
        }
        return Value();
      };
    }
    auto* object = new LoopObject(runtime_, loop.test ? Value() : iterable, std::move(next), depth);
    const Value holder = Value::of(Kind::kFunction, object);
    const LoopObject::End end(*object);
    if (loop.recursive) {
      object->call = [this, &loop, outer = frame.outer, depth](Arguments arguments) {
        const Bound bound("loop", std::move(arguments), {"iterable"}, 1);
        return run_recursive(loop, *outer, bound[0], depth + 1);
      };
    }
    bool completed = false;  // one time through the body, to its end
    for (Value item = object->advance(); !item.is_missing(); item = object->advance()) {
      assign(*loop.target, item, frame);
      frame.slots[static_cast<size_t>(loop.loop_slot)] = holder;
      enter(loop.scope, frame);
      const Flow flow = run(loop.body, frame, out);
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNext) completed = true;
    }
    frame.slots[static_cast<size_t>(loop.loop_slot)] = Value();
    if (completed || loop.otherwise.empty()) return Flow::kNext;
    enter(loop.else_scope, frame);
    return run(loop.otherwise, frame, out);
  }

  // Functions.

  Frame& kept_frame(const FunctionShape& shape, Frame& outer) {
    budget_.spend_values(static_cast<size_t>(shape.num_slots) + 4);
    return kept_frames_.emplace_back(
        Frame{std::vector<Value>(static_cast<size_t>(shape.num_slots)), &outer});
  }

  Value make_function(const Statement& statement, Frame& frame) {
    budget_.spend_objects(2);
    auto* function = new FunctionObject("Macro", statement.name);
    function->call = [this, &statement, outer = &frame](Arguments arguments) {
      return invoke(statement, *outer, std::move(arguments));
    };
    function->attribute = [this, &statement](std::string_view name) {
      return attribute_of_macro(statement, name);
    };
    return Value::of(Kind::kFunction, function);
  }

  Value attribute_of_macro(const Statement& statement, std::string_view name) {
    const bool is_macro = statement.kind == StatementKind::kMacro;
    const bool names_caller =
        std::ranges::any_of(statement.targets, [](const auto& p) { return p->name == "caller"; });
    if (name == "name") return is_macro ? Value::string(statement.name) : Value::none();
    if (name == "catch_kwargs") return Value::boolean(statement.kwargs_slot >= 0);
    if (name == "catch_varargs") return Value::boolean(statement.varargs_slot >= 0);
    if (name == "caller") return Value::boolean(statement.caller_slot >= 0 || names_caller);
    if (name == "explicit_caller") return Value::boolean(names_caller);
    if (name != "arguments") return {};
    budget_.spend_objects(statement.targets.size());
    std::vector<Value> arguments;
    for (const ExprPtr& parameter : statement.targets) {
      arguments.push_back(Value::string(parameter->name));
    }
    return runtime_.tuple(std::move(arguments));
  }

  void call_with_block(const Statement& statement, Frame& frame, MarkedText& out) {
    const Expr& expr = *statement.expr;
    const Value function = evaluate(*expr.left, frame);
    Arguments arguments = evaluate(expr.arguments, frame);
    arguments.named.emplace_back("caller", make_function(statement, frame));
    add(out, to_text(call(runtime_, function, std::move(arguments)), budget_));
  }

  Value invoke(const Statement& statement, Frame& outer, Arguments arguments) {
    const Budget::Level level(budget_);
    if (statement.function.may_be_kept) {
      return invoke_in(statement, kept_frame(statement.function, outer), std::move(arguments));
    }
    budget_.spend_steps(static_cast<size_t>(statement.function.num_slots));
    Frame frame{std::vector<Value>(static_cast<size_t>(statement.function.num_slots)), &outer};
    return invoke_in(statement, frame, std::move(arguments));
  }

  Value invoke_in(const Statement& statement, Frame& frame, Arguments arguments) {
    bind(statement, frame, std::move(arguments));
    enter(statement.scope, frame);
    const size_t num_parameters = statement.targets.size();
    const size_t num_required = num_parameters - statement.exprs.size();
    for (size_t i = 0; i < num_parameters; ++i) {
      Value& parameter = slot(statement.targets[i]->variable, frame);
      if (!parameter.is_missing()) continue;
      parameter = i < num_required ? Value::undefined(fmt::format("parameter '{}' was not provided",
                                                                  statement.targets[i]->name))
                                   : evaluate(*statement.exprs[i - num_required], frame);
    }
    MarkedText out;
    run(statement.body, frame, out);
    return runtime_.text(std::move(out));
  }

  void bind(const Statement& statement, Frame& frame, Arguments arguments) {
    const size_t num_parameters = statement.targets.size();
    const size_t num_positional = std::min(arguments.positional.size(), num_parameters);
    for (size_t i = 0; i < num_positional; ++i) {
      slot(statement.targets[i]->variable, frame) = arguments.positional[i];
    }
    const auto take = [&](std::string_view name) {
      budget_.spend_steps(arguments.named.size());
      const auto found =
          std::ranges::find(arguments.named, name, &std::pair<std::string, Value>::first);
      if (found == arguments.named.end()) return Value();
      Value value = std::move(found->second);
      arguments.named.erase(found);
      return value;
    };
    for (size_t i = num_positional; i < num_parameters; ++i) {
      slot(statement.targets[i]->variable, frame) = take(statement.targets[i]->name);
    }
    const auto at = [&](int i) -> Value& { return frame.slots[static_cast<size_t>(i)]; };
    if (statement.caller_slot >= 0) {
      Value caller = take("caller");
      if (caller.is_missing() || caller.is_none()) caller = Value::undefined("No caller defined");
      at(statement.caller_slot) = std::move(caller);
    }
    if (statement.kwargs_slot >= 0) {
      Dict rest;
      for (auto& [name, value] : arguments.named) rest.set(name, std::move(value));
      at(statement.kwargs_slot) = runtime_.dict(std::move(rest));
    } else if (!arguments.named.empty()) {
      throw TemplateError(fmt::format("macro '{}' takes no keyword argument '{}'", statement.name,
                                      arguments.named[0].first));
    }
    if (statement.varargs_slot >= 0) {
      const auto begin = arguments.positional.begin() + static_cast<ptrdiff_t>(num_positional);
      at(statement.varargs_slot) =
          runtime_.tuple(std::vector<Value>(begin, arguments.positional.end()));
    } else if (arguments.positional.size() > num_parameters) {
      throw TemplateError(fmt::format("macro '{}' takes not more than {} arguments", statement.name,
                                      num_parameters));
    }
  }

  Arguments evaluate(const CallArguments& arguments, Frame& frame) {
    Arguments result;
    for (const ExprPtr& argument : arguments.positional) {
      result.positional.push_back(evaluate(*argument, frame));
    }
    if (arguments.more_positional) {
      const Value more = evaluate(*arguments.more_positional, frame);
      for (Value& item : all_items(runtime_, more)) result.positional.push_back(std::move(item));
    }
    for (const auto& [name, argument] : arguments.named) {
      result.named.emplace_back(name, evaluate(*argument, frame));
    }
    if (arguments.more_named) {
      const Value more = evaluate(*arguments.more_named, frame);
      if (!more.is(Kind::kDict)) throw TemplateError("** expects a dict");
      for (const auto& [key, value] : more.entries().entries()) {
        if (!key.is_string()) throw TemplateError("** expects keys that are strings");
        budget_.spend_steps(result.named.size());
        budget_.spend_objects(1);
        budget_.spend_text(key.text().size());
        for (const auto& [name, other] : result.named) {
          if (name == key.text()) throw TemplateError(fmt::format("two values for '{}'", name));
        }
        result.named.emplace_back(key.text(), value);
      }
    }
    return result;
  }

  // The functions from here on evaluate expressions.

  Value evaluate(const Expr& expr, Frame& frame, bool may_be_undefined = false) {
    const Budget::Level level(budget_);
    budget_.spend_steps();
    try {
      Value value = evaluate_any(expr, frame);
      // An inline if without an else is empty in any case, as in jinja2.
      if (!may_be_undefined && expr.kind != ExprKind::kConditional) runtime_.check_defined(value);
      return value;
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = expr.line;
      throw;
    }
  }

  Value evaluate_any(const Expr& expr, Frame& frame) {
    switch (expr.kind) {
      case ExprKind::kConstant: return expr.constant;
      case ExprKind::kName: return name(expr, frame);
      case ExprKind::kAttribute:
        return get_attribute(runtime_, evaluate(*expr.left, frame), expr.name);
      case ExprKind::kItem: return item(expr, frame);
      case ExprKind::kSlice: return slice(expr, frame);
      case ExprKind::kList: return runtime_.list(all(expr.items, frame));
      case ExprKind::kTuple: return runtime_.tuple(all(expr.items, frame));
      case ExprKind::kDict: return dict(expr, frame);
      case ExprKind::kCall: return called(expr, frame);
      case ExprKind::kFilter: return filter(expr, frame, nullptr);
      case ExprKind::kTest: return test(expr, frame);
      case ExprKind::kNot: return Value::boolean(!is_true(evaluate(*expr.left, frame)));
      case ExprKind::kNegative: return negative(evaluate(*expr.left, frame));
      case ExprKind::kPositive: return positive(evaluate(*expr.left, frame));
      case ExprKind::kAnd: {
        Value left = evaluate(*expr.left, frame);
        return is_true(left) ? evaluate(*expr.right, frame) : left;
      }
      case ExprKind::kOr: {
        Value left = evaluate(*expr.left, frame);
        return is_true(left) ? left : evaluate(*expr.right, frame);
      }
      case ExprKind::kConditional: return conditional(expr, frame);
      case ExprKind::kConcat: return concat(expr, frame);
      case ExprKind::kArithmetic: return arithmetic_of(expr, frame);
      case ExprKind::kComparison: return comparison(expr, frame);
    }
    return {};
  }

  static Value name(const Expr& expr, Frame& frame) {
    const Value& value = slot(expr.variable, frame);
    return value.is_missing() ? Value::undefined(fmt::format("'{}' is undefined", expr.name))
                              : value;
  }

  std::vector<Value> all(const std::vector<ExprPtr>& exprs, Frame& frame) {
    std::vector<Value> values;
    for (const ExprPtr& expr : exprs) values.push_back(evaluate(*expr, frame));
    return values;
  }

  Value item(const Expr& expr, Frame& frame) {
    const Value object = evaluate(*expr.left, frame);
    return get_item(runtime_, object, evaluate(*expr.right, frame));
  }

  Value slice(const Expr& expr, Frame& frame) {
    const Value object = evaluate(*expr.left, frame);
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i) {
      bounds[i] = expr.items[i] ? evaluate(*expr.items[i], frame) : Value::none();
    }
    return get_slice(runtime_, object, bounds[0], bounds[1], bounds[2]);
  }

  Value dict(const Expr& expr, Frame& frame) {
    Dict result;
    for (size_t i = 0; i < expr.items.size(); i += 2) {
      const Value key = evaluate(*expr.items[i], frame);
      Value value = evaluate(*expr.items[i + 1], frame);
      check_hashable(key, budget_);
      result.set(key, std::move(value), budget_);
    }
    return runtime_.dict(std::move(result));
  }

  Value called(const Expr& expr, Frame& frame) {
    const Value function = evaluate(*expr.left, frame);
    return call(runtime_, function, evaluate(expr.arguments, frame));
  }

  static bool gives_default(const Expr& filter) {
    return filter.name == "default" || filter.name == "d";
  }

  // `head`: what the first of a chain of filters gets if the chain begins with none.
  Value filter(const Expr& expr, Frame& frame, const Value* head) {
    const Value value = expr.left == nullptr ? *head
                        : expr.left->kind == ExprKind::kFilter && head != nullptr
                            ? filter(*expr.left, frame, head)
                            : evaluate(*expr.left, frame, gives_default(expr));
    return apply_filter(runtime_, expr.name, value, evaluate(expr.arguments, frame));
  }

  Value test(const Expr& expr, Frame& frame) {
    const bool tells = expr.name == "defined" || expr.name == "undefined";
    const Value value = evaluate(*expr.left, frame, tells);
    return Value::boolean(apply_test(runtime_, expr.name, value, evaluate(expr.arguments, frame)));
  }

  Value conditional(const Expr& expr, Frame& frame) {
    if (is_true(evaluate(*expr.right, frame))) return evaluate(*expr.left, frame);
    if (expr.items[0]) return evaluate(*expr.items[0], frame);
    return Value::undefined("an inline if was false and has no else");
  }

  Value concat(const Expr& expr, Frame& frame) {
    TextBuilder text(budget_);
    for (const ExprPtr& item : expr.items) {
      const Value value = evaluate(*item, frame);
      if (value.is_string()) {
        text.add(value.marked());
      } else {
        text.add(to_text(value, budget_));
      }
    }
    return runtime_.text(text.take());
  }

  Value arithmetic_of(const Expr& expr, Frame& frame) {
    const Value left = evaluate(*expr.left, frame);
    return arithmetic(runtime_, expr.name, left, evaluate(*expr.right, frame));
  }

  Value comparison(const Expr& expr, Frame& frame) {
    Value left = evaluate(*expr.items[0], frame);
    for (size_t i = 0; i < expr.names.size(); ++i) {
      Value right = evaluate(*expr.items[i + 1], frame);
      if (!compare(runtime_, expr.names[i], left, right)) return Value::boolean(false);
      left = std::move(right);
    }
    return Value::boolean(true);
  }

  const Dict& variables_;
  Runtime& runtime_;
  Budget& budget_;
  std::deque<Frame> kept_frames_ = {};  // of functions that values may still refer to
};

}  // namespace

Template Template::parse(std::string_view source) {
  Template result;
  result.tree_ = jinja::parse(source);
  resolve_names(result.tree_);
  return result;
}

Rendered Template::render(const Dict& variables, const DateTime& now, const Limits& limits,
                          Undefined undefined) const {
  Budget budget(limits);
  Runtime runtime(budget, now, undefined);
  MarkedText out = Evaluator(variables, runtime).render(tree_);
  return {std::move(out.text), std::move(out.marks)};
}

}  // namespace pagedinfer::jinja
