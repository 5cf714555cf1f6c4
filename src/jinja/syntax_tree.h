// A parsed template.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace pagedinfer::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

// The arguments of a call: `f(a, b, name=c, *d, **e)`.
struct CallArguments {
  std::vector<ExprPtr> positional = {};
  std::vector<std::pair<std::string, ExprPtr>> named = {};
  ExprPtr more_positional = nullptr, more_named = nullptr;
};

enum class ExprKind {
  kConstant,
  kName,
  kAttribute,  // left.name
  kItem,       // left[right]
  kSlice,      // left[items[0]:items[1]:items[2]], which may be null
  kList,
  kTuple,
  kDict,    // keys and values in turn
  kCall,    // left(arguments)
  kFilter,  // left | name(arguments); left is null at the head of a filter block
  kTest,    // left is name(arguments)
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kConditional,  // left if right else items[0], which may be null
  kConcat,       // items joined by ~
  kArithmetic,   // left name right
  kComparison,   // items[0] names[0] items[1] names[1] items[2] ...
};

// Where a variable is: so many functions out, in a slot of that function.
struct Variable {
  int functions_out = 0;
  int slot = -1;
};

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;  // of the tree
  Value constant = {};
  std::string name = {};
  Variable variable = {};  // of a name
  bool store = false;      // a name that is assigned to
  ExprPtr left = nullptr, right = nullptr;
  std::vector<ExprPtr> items = {};
  std::vector<std::string> names = {};
  CallArguments arguments = {};
};

// Calls act(child) for each expression directly inside another.
template <class Act>
void for_children(const Expr& expr, Act act) {
  const auto visit = [&](const ExprPtr& child) {
    if (child) act(*child);
  };
  visit(expr.left);
  visit(expr.right);
  for (const ExprPtr& item : expr.items) visit(item);
  for (const ExprPtr& argument : expr.arguments.positional) visit(argument);
  for (const auto& [key, argument] : expr.arguments.named) visit(argument);
  visit(expr.arguments.more_positional);
  visit(expr.arguments.more_named);
}

// What the variables of a scope are when it is entered.
struct ScopeStart {
  struct Load {
    enum class From { kArgument, kContext, kOuter, kNothing };
    int slot = -1;
    From from = From::kNothing;
    std::string name = {};  // in the context
    Variable outer = {};
  };
  std::vector<Load> loads = {};
};

// What a call of a function needs.
struct FunctionShape {
  int num_slots = 0;
  bool may_be_kept = false;  // a value that is made inside may refer to the variables of the call
};

enum class StatementKind {
  kOutput,  // data, and expressions to print
  kFor,
  kIf,
  kSet,       // target = expr
  kSetBlock,  // the target gets the rendered body, through `expr` if it is a filter
  kMacro,
  kCallBlock,    // expr, a call, gets the body as `caller`
  kGeneration,   // {% generation %}: its body
  kFilterBlock,  // the rendered body through `expr`
  kWith,
  kBreak,
  kContinue,
  kUnsupported,  // fails with `name` when it is reached
};

struct Statement {
  StatementKind kind;
  int line;
  std::string name = {};              // of a macro, or of what is not supported
  std::vector<ExprPtr> exprs = {};    // to print; values of `with`; defaults of a macro
  ExprPtr target = nullptr;           // of an assignment or a loop
  ExprPtr expr = nullptr;             // what is assigned, looped over, tested, called
  ExprPtr test = nullptr;             // the condition of a loop,
  ExprPtr test_target = nullptr;      // and its target, in variables of the condition's own
  std::vector<ExprPtr> targets = {};  // of `with`; the parameters of a macro
  Block body = {};
  Block otherwise = {};                                   // else
  std::vector<std::unique_ptr<Statement>> branches = {};  // elif
  bool recursive = false;

  // Filled in by resolve_names():
  ScopeStart scope = {}, test_scope = {}, else_scope = {};
  FunctionShape function = {};  // of a statement that is a function
  int loop_slot = -1;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
};

struct SyntaxTree {
  Block body = {};
  // Filled in by resolve_names():
  ScopeStart scope = {};
  FunctionShape function = {};
  std::set<std::string> context_names = {};  // read before the template itself assigns to them
};

// Parses a template. Names are not yet resolved. Throws TemplateError, also where the template is
// too long or nested too deep.
SyntaxTree parse(std::string_view source);

// Finds the variable of each name, and the first values of the variables of a scope. In a template
// this is decided before it runs: a name that a loop's body assigns to is a variable of that body,
// which begins each time with the value of the name outside. Throws TemplateError if a tag assigns
// to `loop` in a loop, or if a filter or test outside of conditions is unknown.
void resolve_names(SyntaxTree& tree);

}  // namespace pagedinfer::jinja
