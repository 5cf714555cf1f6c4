#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <set>

#include "core/utf8.h"
#include "jinja/lexer.h"
#include "jinja/numbers.h"
#include "jinja/syntax_tree.h"

namespace pagedinfer::jinja {
namespace {

constexpr size_t kMaxSource = size_t{4} << 20;  // bytes
constexpr int kMaxNesting = 200;                // of expressions, as in Python
constexpr int kMaxBlocks = 100;                 // statements, one inside the other

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(lex(source)) {}

  SyntaxTree parse() {
    SyntaxTree tree;
    tree.body = block({});
    return tree;
  }

 private:
  // The nesting of what is being parsed, limited.
  class Nested {
   public:
    Nested(Parser& parser, int& depth, int max) : depth_(depth) {
      if (++depth_ > max) parser.fail("nested too deep");
    }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    int& depth_;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return now().line; }
  Token take() {
    Token token = now();
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool sees(std::string_view op) const { return is(now(), TokenKind::kOperator, op); }
  bool sees_name(std::string_view name) const { return is(now(), TokenKind::kName, name); }
  bool skip_if(std::string_view op) {
    if (!sees(op)) return false;
    take();
    return true;
  }
  bool skip_if_name(std::string_view name) {
    if (!sees_name(name)) return false;
    take();
    return true;
  }
  void expect(std::string_view op) {
    if (!skip_if(op)) fail(fmt::format("expected '{}', found {}", op, described(now())));
  }
  void expect_name(std::string_view name) {
    if (!skip_if_name(name)) fail(fmt::format("expected '{}', found {}", name, described(now())));
  }
  std::string name() {
    if (now().kind != TokenKind::kName) {
      fail(fmt::format("expected a name, found {}", described(now())));
    }
    return take().text;
  }
  void expect_kind(TokenKind kind, std::string_view what) {
    if (now().kind != kind) fail(fmt::format("expected {}, found {}", what, described(now())));
    take();
  }

  [[noreturn]] void fail(const std::string& message) const { fail(message, line()); }
  [[noreturn]] static void fail(const std::string& message, int at_line) {
    throw TemplateError(message, at_line);
  }
  static std::string described(const Token& token) {
    switch (token.kind) {
      case TokenKind::kPrintEnd: return "'}}'";
      case TokenKind::kBlockEnd: return "'%}'";
      case TokenKind::kEnd: return "the end of the template";
      case TokenKind::kString: return "a string";
      case TokenKind::kName:
      case TokenKind::kInteger:
      case TokenKind::kFloat:
      case TokenKind::kOperator: return "'" + token.text + "'";
      default: return "text";
    }
  }

  // Trees.

  static ExprPtr make(ExprKind kind, int at_line) {
    return std::make_unique<Expr>(Expr{.kind = kind, .line = at_line});
  }
  // Gives a finished tree its depth.
  ExprPtr finish(ExprPtr expr) const {
    int depth = 0;
    for_children(*expr, [&](const Expr& child) { depth = std::max(depth, child.depth); });
    expr->depth = depth + 1;
    if (expr->depth > kMaxNesting) fail("an expression is nested too deep", expr->line);
    return expr;
  }
  ExprPtr binary(ExprKind kind, int at_line, std::string op, ExprPtr left, ExprPtr right) {
    ExprPtr expr = make(kind, at_line);
    expr->name = std::move(op);
    expr->left = std::move(left);
    expr->right = std::move(right);
    return finish(std::move(expr));
  }

  // Statements.

  static std::unique_ptr<Statement> statement(StatementKind kind, int at_line) {
    return std::make_unique<Statement>(Statement{.kind = kind, .line = at_line});
  }

  bool at_any(std::initializer_list<std::string_view> names) const {
    return now().kind == TokenKind::kName && std::ranges::find(names, now().text) != names.end();
  }

  // Statements up to a tag that begins with one of the names; the name is not read. The whole
  // template if there are none.
  Block block(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this, num_blocks_, kMaxBlocks);
    const int begin = line();
    Block body;
    const auto output = [&]() -> Statement& {
      if (body.empty() || body.back()->kind != StatementKind::kOutput) {
        body.push_back(statement(StatementKind::kOutput, line()));
      }
      return *body.back();
    };
    while (now().kind != TokenKind::kEnd) {
      const Token token = take();
      if (token.kind == TokenKind::kData) {
        ExprPtr data = make(ExprKind::kConstant, token.line);
        data->constant = Value::string(token.text);
        output().exprs.push_back(std::move(data));
      } else if (token.kind == TokenKind::kPrintBegin) {
        output().exprs.push_back(tuple(true, false));
        expect_kind(TokenKind::kPrintEnd, "'}}'");
      } else {
        if (at_any(ends)) return body;
        body.push_back(any_statement());
        expect_kind(TokenKind::kBlockEnd, "'%}'");
      }
    }
    if (ends.size() > 0) {
      fail(fmt::format("expected {{% {} %}} for the block of line {}", *(ends.end() - 1), begin));
    }
    return body;
  }
  Block body(std::initializer_list<std::string_view> ends) {
    skip_if(":");
    expect_kind(TokenKind::kBlockEnd, "'%}'");
    return block(ends);
  }
  // A body with one possible end, which is read.
  Block closed_body(std::string_view end) {
    Block result = body({end});
    take();
    return result;
  }

  std::unique_ptr<Statement> any_statement() {
    const int at_line = line();
    const std::string tag = name();
    if (tag == "for") return for_loop(at_line);
    if (tag == "if") return condition(at_line);
    if (tag == "set") return set(at_line);
    if (tag == "macro") return macro(at_line);
    if (tag == "call") return call_block(at_line);
    if (tag == "filter") return filter_block(at_line);
    if (tag == "with") return with(at_line);
    if (tag == "print") return print(at_line);
    if (tag == "generation") {
      auto result = statement(StatementKind::kGeneration, at_line);
      result->body = function_body("endgeneration");
      return result;
    }
    if (tag == "break" || tag == "continue") {
      if (num_loops_ == 0) fail(fmt::format("{{% {} %}} outside of a loop", tag), at_line);
      return statement(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, at_line);
    }
    if (tag == "block" || tag == "autoescape") return unsupported_block(at_line, tag);
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      return unsupported(at_line, tag);
    }
    fail(fmt::format("unknown tag '{}'", tag), at_line);
  }

  void skip_tag() {
    while (now().kind != TokenKind::kBlockEnd && now().kind != TokenKind::kEnd) take();
  }
  std::unique_ptr<Statement> unsupported(int at_line, const std::string& tag) {
    auto result = statement(StatementKind::kUnsupported, at_line);
    result->name = tag;
    skip_tag();
    return result;
  }
  std::unique_ptr<Statement> unsupported_block(int at_line, const std::string& tag) {
    auto result = unsupported(at_line, tag);
    closed_body(tag == "block" ? "endblock" : "endautoescape");
    skip_tag();
    return result;
  }

  std::unique_ptr<Statement> for_loop(int at_line) {
    auto result = statement(StatementKind::kFor, at_line);
    const size_t begin = at_;
    result->target = target(true, false);
    at_ = begin;
    result->test_target = target(true, false);
    expect_name("in");
    result->expr = tuple(false, false);
    if (skip_if_name("if")) result->test = expression();
    result->recursive = skip_if_name("recursive");
    ++num_loops_;
    result->body = body({"else", "endfor"});
    --num_loops_;
    if (take().text == "else") {
      const int outer_loops = num_loops_;
      if (result->recursive) num_loops_ = 0;
      result->otherwise = closed_body("endfor");
      num_loops_ = outer_loops;
    }
    return result;
  }

  std::unique_ptr<Statement> condition(int at_line) {
    auto result = statement(StatementKind::kIf, at_line);
    result->expr = tuple(false, false);
    result->body = body({"elif", "else", "endif"});
    for (Token end = take(); end.text != "endif"; end = take()) {
      if (end.text == "else") {
        result->otherwise = closed_body("endif");
        break;
      }
      auto branch = statement(StatementKind::kIf, end.line);
      branch->expr = tuple(false, false);
      branch->body = body({"elif", "else", "endif"});
      result->branches.push_back(std::move(branch));
    }
    return result;
  }

  std::unique_ptr<Statement> set(int at_line) {
    auto result = statement(StatementKind::kSet, at_line);
    result->target = target(true, true);
    if (skip_if("=")) {
      result->expr = tuple(true, false);
      return result;
    }
    result->kind = StatementKind::kSetBlock;
    if (sees("|")) result->expr = filters(nullptr);
    result->body = closed_body("endset");
    return result;
  }

  // The body of a function: a loop around it is none of its own.
  Block function_body(std::string_view end) {
    const int loops = std::exchange(num_loops_, 0);
    Block result = closed_body(end);
    num_loops_ = loops;
    return result;
  }

  // The parameters of a macro, and their defaults.
  void signature(Statement& of) {
    std::set<std::string> names;
    expect("(");
    while (!sees(")")) {
      if (!of.targets.empty()) expect(",");
      of.targets.push_back(name_target());
      if (!names.insert(of.targets.back()->name).second) fail("two parameters of one name");
      if (skip_if("=")) {
        of.exprs.push_back(expression());
      } else if (!of.exprs.empty()) {
        fail("a parameter without a default follows one with a default");
      }
    }
    expect(")");
  }

  std::unique_ptr<Statement> macro(int at_line) {
    auto result = statement(StatementKind::kMacro, at_line);
    result->target = name_target();
    result->name = result->target->name;
    signature(*result);
    result->body = function_body("endmacro");
    return result;
  }

  std::unique_ptr<Statement> call_block(int at_line) {
    auto result = statement(StatementKind::kCallBlock, at_line);
    if (sees("(")) signature(*result);
    result->expr = expression();
    if (result->expr->kind != ExprKind::kCall) fail("expected a call", at_line);
    result->body = function_body("endcall");
    return result;
  }

  std::unique_ptr<Statement> filter_block(int at_line) {
    auto result = statement(StatementKind::kFilterBlock, at_line);
    result->expr = filters(one_filter(nullptr));
    result->body = closed_body("endfilter");
    return result;
  }

  std::unique_ptr<Statement> with(int at_line) {
    auto result = statement(StatementKind::kWith, at_line);
    while (now().kind != TokenKind::kBlockEnd) {
      if (!result->targets.empty()) expect(",");
      result->targets.push_back(target(true, false));
      expect("=");
      result->exprs.push_back(expression());
    }
    result->body = closed_body("endwith");
    return result;
  }

  std::unique_ptr<Statement> print(int at_line) {
    auto result = statement(StatementKind::kOutput, at_line);
    while (now().kind != TokenKind::kBlockEnd) {
      if (!result->exprs.empty()) expect(",");
      result->exprs.push_back(expression());
    }
    return result;
  }

  // Targets of assignments.

  ExprPtr name_target() {
    ExprPtr result = make(ExprKind::kName, line());
    result->name = name();
    check_target(*result);
    return result;
  }
  ExprPtr target(bool with_tuple, bool with_namespace) {
    ExprPtr result =
        with_tuple ? tuple(false, false, true, with_namespace) : primary(with_namespace);
    check_target(*result);
    return result;
  }
  void check_target(Expr& expr) {
    if (expr.kind == ExprKind::kName) {
      expr.store = true;
      constexpr std::array kReserved = {"true", "false", "none", "True", "False", "None"};
      if (std::ranges::find(kReserved, expr.name) != kReserved.end()) {
        fail(fmt::format("'{}' cannot be assigned to", expr.name), expr.line);
      }
    } else if (expr.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : expr.items) check_target(*item);
    } else if (!(expr.kind == ExprKind::kAttribute && expr.store)) {
      fail("an expression cannot be assigned to", expr.line);
    }
  }

  // Expressions, from those that bind the loosest to those that bind the tightest.

  bool at_tuple_end() const {
    return now().kind == TokenKind::kPrintEnd || now().kind == TokenKind::kBlockEnd || sees(")");
  }

  // An expression, or several with commas between. `simple`: names and literals only.
  ExprPtr tuple(bool with_conditional, bool in_brackets, bool simple = false,
                bool with_namespace = false) {
    int at_line = line();
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) expect(",");
      if (at_tuple_end()) break;
      items.push_back(simple             ? primary(with_namespace)
                      : with_conditional ? expression()
                                         : either());
      if (!sees(",")) break;
      is_tuple = true;
      at_line = line();
    }
    if (!is_tuple) {
      if (!items.empty()) return std::move(items[0]);
      if (!in_brackets) fail(fmt::format("expected an expression, found {}", described(now())));
    }
    ExprPtr result = make(ExprKind::kTuple, at_line);
    result->items = std::move(items);
    return finish(std::move(result));
  }

  ExprPtr expression() {
    const Nested nested(*this, num_expressions_, kMaxNesting);
    int at_line = line();
    ExprPtr result = either();
    while (skip_if_name("if")) {
      ExprPtr conditional = make(ExprKind::kConditional, at_line);
      conditional->left = std::move(result);
      conditional->right = either();
      conditional->items.push_back(skip_if_name("else") ? expression() : nullptr);
      result = finish(std::move(conditional));
      at_line = line();
    }
    return result;
  }

  // Operands with an operator between, which binds to the left.
  ExprPtr chain(std::initializer_list<std::string_view> operators, ExprPtr (Parser::*operand)()) {
    const int at_line = line();
    ExprPtr left = (this->*operand)();
    while (now().kind == TokenKind::kOperator &&
           std::ranges::find(operators, now().text) != operators.end()) {
      std::string op = take().text;
      left = binary(ExprKind::kArithmetic, at_line, std::move(op), std::move(left),
                    (this->*operand)());
    }
    return left;
  }
  ExprPtr chain(ExprKind kind, std::string_view word, ExprPtr (Parser::*operand)()) {
    const int at_line = line();
    ExprPtr left = (this->*operand)();
    while (skip_if_name(word)) {
      left = binary(kind, at_line, "", std::move(left), (this->*operand)());
    }
    return left;
  }

  ExprPtr either() { return chain(ExprKind::kOr, "or", &Parser::both); }
  ExprPtr both() { return chain(ExprKind::kAnd, "and", &Parser::negation); }
  ExprPtr negation() {
    const int at_line = line();
    if (!skip_if_name("not")) return comparison();
    const Nested nested(*this, num_expressions_, kMaxNesting);
    return binary(ExprKind::kNot, at_line, "", negation(), nullptr);
  }

  ExprPtr comparison() {
    constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
    ExprPtr result = make(ExprKind::kComparison, line());
    result->items.push_back(sum());
    while (true) {
      if (now().kind == TokenKind::kOperator &&
          std::ranges::find(kComparisons, now().text) != kComparisons.end()) {
        result->names.push_back(take().text);
      } else if (skip_if_name("in")) {
        result->names.emplace_back("in");
      } else if (sees_name("not") && is(next(), TokenKind::kName, "in")) {
        take();
        take();
        result->names.emplace_back("not in");
      } else {
        break;
      }
      result->items.push_back(sum());
    }
    if (result->names.empty()) return std::move(result->items[0]);
    return finish(std::move(result));
  }

  ExprPtr sum() { return chain({"+", "-"}, &Parser::concat); }
  ExprPtr concat() {
    ExprPtr result = make(ExprKind::kConcat, line());
    do {
      result->items.push_back(product());
    } while (skip_if("~"));
    if (result->items.size() == 1) return std::move(result->items[0]);
    return finish(std::move(result));
  }
  ExprPtr product() { return chain({"*", "/", "//", "%"}, &Parser::power); }
  ExprPtr power() { return chain({"**"}, &Parser::filtered); }
  ExprPtr filtered() { return unary(true); }

  ExprPtr unary(bool with_filters) {
    const int at_line = line();
    ExprPtr result;
    if (sees("-") || sees("+")) {
      const Nested nested(*this, num_expressions_, kMaxNesting);
      const ExprKind kind = take().text == "-" ? ExprKind::kNegative : ExprKind::kPositive;
      result = binary(kind, at_line, "", unary(false), nullptr);
    } else {
      result = primary(false);
    }
    result = postfix(std::move(result));
    return with_filters ? filter_expression(std::move(result)) : std::move(result);
  }

  ExprPtr primary(bool with_namespace) {
    const Token token = now();
    ExprPtr result = make(ExprKind::kConstant, token.line);
    switch (token.kind) {
      case TokenKind::kName: return name_or_constant(with_namespace);
      case TokenKind::kString: {
        std::string text;
        while (now().kind == TokenKind::kString) text += take().text;
        result->constant = Value::string(std::move(text));
        return result;
      }
      case TokenKind::kInteger:
        take();
        result->constant = integer_value(token);
        return result;
      case TokenKind::kFloat:
        take();
        result->constant = Value::real(std::strtod(token.text.c_str(), nullptr));
        return result;
      default: break;
    }
    if (skip_if("(")) {
      result = tuple(true, true);
      expect(")");
      return result;
    }
    if (sees("[")) return list();
    if (sees("{")) return dict();
    fail(fmt::format("unexpected {}", described(token)), token.line);
  }

  static Value integer_value(const Token& token) {
    constexpr size_t kMaxDigits = 4300;  // as in Python
    const std::string& text = token.text;
    const bool decimal = text.find_first_not_of("0123456789") == std::string::npos;
    int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (decimal && parsed.ec == std::errc::result_out_of_range && text.size() <= kMaxDigits) {
      return Value::big_integer(text);
    }
    return Value::integer(integer(token));
  }
  static int64_t integer(const Token& token) {
    try {
      return parse_integer(token.text, 0).value();
    } catch (const TemplateError& error) {
      fail(error.what(), token.line);
    }
  }

  ExprPtr name_or_constant(bool with_namespace) {
    const Token token = take();
    ExprPtr result = make(ExprKind::kConstant, token.line);
    const std::string& text = token.text;
    if (text == "true" || text == "True" || text == "false" || text == "False") {
      result->constant = Value::boolean(text == "true" || text == "True");
    } else if (text == "none" || text == "None") {
      result->constant = Value::none();
    } else {
      result->kind = ExprKind::kName;
      result->name = text;
      if (with_namespace && skip_if(".")) {
        ExprPtr attribute = make(ExprKind::kAttribute, token.line);
        attribute->left = std::move(result);
        attribute->name = name();
        attribute->store = true;
        return finish(std::move(attribute));
      }
    }
    return result;
  }

  ExprPtr list() {
    return display(ExprKind::kList, "]", [&](Expr& of) { of.items.push_back(expression()); });
  }
  ExprPtr dict() {
    return display(ExprKind::kDict, "}", [&](Expr& of) {
      of.items.push_back(expression());
      expect(":");
      of.items.push_back(expression());
    });
  }
  // Entries between brackets; a comma may follow the last.
  template <class ReadEntry>
  ExprPtr display(ExprKind kind, std::string_view end, const ReadEntry& read_entry) {
    ExprPtr result = make(kind, line());
    take();
    while (!sees(end)) {
      if (!result->items.empty()) expect(",");
      if (sees(end)) break;
      read_entry(*result);
    }
    expect(end);
    return finish(std::move(result));
  }

  ExprPtr postfix(ExprPtr expr) {
    while (true) {
      if (sees(".") || sees("[")) {
        expr = subscript(std::move(expr));
      } else if (sees("(")) {
        expr = call(std::move(expr));
      } else {
        return expr;
      }
    }
  }
  ExprPtr filter_expression(ExprPtr expr) {
    while (true) {
      if (sees("|")) {
        expr = filters(std::move(expr));
      } else if (sees_name("is")) {
        expr = test(std::move(expr));
      } else if (sees("(")) {
        expr = call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr subscript(ExprPtr expr) {
    const int at_line = line();
    if (take().text == ".") {
      const Token attribute = take();
      if (attribute.kind == TokenKind::kName) {
        return binary(ExprKind::kAttribute, at_line, attribute.text, std::move(expr), nullptr);
      }
      if (attribute.kind != TokenKind::kInteger) fail("expected a name or a number", at_line);
      ExprPtr index = make(ExprKind::kConstant, at_line);
      index->constant = Value::integer(integer(attribute));
      return binary(ExprKind::kItem, at_line, "", std::move(expr), std::move(index));
    }
    std::vector<ExprPtr> items;
    bool sliced = false;
    while (!sees("]")) {
      if (!items.empty()) expect(",");
      items.push_back(subscribed(sliced));
    }
    expect("]");
    if (items.size() == 1 && sliced) {
      items[0]->left = std::move(expr);
      return finish(std::move(items[0]));
    }
    if (sliced) fail("several slices in one subscript are not supported", at_line);
    if (items.size() == 1) {
      return binary(ExprKind::kItem, at_line, "", std::move(expr), std::move(items[0]));
    }
    ExprPtr index = make(ExprKind::kTuple, at_line);
    index->items = std::move(items);
    return binary(ExprKind::kItem, at_line, "", std::move(expr), finish(std::move(index)));
  }
  // What stands in the brackets of a subscript: an expression or a slice.
  ExprPtr subscribed(bool& sliced) {
    ExprPtr slice = make(ExprKind::kSlice, line());
    slice->items.resize(3);
    if (!sees(":")) {
      slice->items[0] = expression();
      if (!sees(":")) return std::move(slice->items[0]);
    }
    sliced = true;
    take();
    const auto at_end = [&] { return sees("]") || sees(","); };
    if (!sees(":") && !at_end()) slice->items[1] = expression();
    if (skip_if(":") && !at_end()) slice->items[2] = expression();
    return slice;
  }

  CallArguments arguments() {
    CallArguments result;
    const int at_line = line();
    expect("(");
    const auto require = [&](bool valid) {
      if (!valid) fail("invalid arguments of a call", at_line);
    };
    std::set<std::string> names;
    bool first = true;
    while (!sees(")")) {
      if (!std::exchange(first, false)) {
        expect(",");
        if (sees(")")) break;
      }
      if (skip_if("*")) {
        require(!result.more_positional && !result.more_named);
        result.more_positional = expression();
      } else if (skip_if("**")) {
        require(!result.more_named);
        result.more_named = expression();
      } else if (now().kind == TokenKind::kName && is(next(), TokenKind::kOperator, "=")) {
        require(!result.more_named);
        std::string key = take().text;
        take();
        require(names.insert(key).second);
        result.named.emplace_back(std::move(key), expression());
      } else {
        require(!result.more_positional && !result.more_named && result.named.empty());
        result.positional.push_back(expression());
      }
    }
    expect(")");
    return result;
  }

  ExprPtr call(ExprPtr expr) {
    ExprPtr result = make(ExprKind::kCall, line());
    result->left = std::move(expr);
    result->arguments = arguments();
    return finish(std::move(result));
  }

  std::string dotted_name() {
    std::string result = name();
    while (skip_if(".")) result.append(".").append(name());
    return result;
  }

  ExprPtr one_filter(ExprPtr expr) {
    ExprPtr result = make(ExprKind::kFilter, line());
    result->left = std::move(expr);
    result->name = dotted_name();
    if (sees("(")) result->arguments = arguments();
    return finish(std::move(result));
  }
  ExprPtr filters(ExprPtr expr) {
    while (skip_if("|")) expr = one_filter(std::move(expr));
    return expr;
  }

  ExprPtr test(ExprPtr expr) {
    ExprPtr result = make(ExprKind::kTest, line());
    take();
    const bool negated = skip_if_name("not");
    result->left = std::move(expr);
    result->name = dotted_name();
    if (sees("(")) {
      result->arguments = arguments();
    } else if (at_test_argument()) {
      if (sees_name("is")) fail("tests cannot be chained");
      result->arguments.positional.push_back(postfix(primary(false)));
    }
    const int at_line = result->line;
    result = finish(std::move(result));
    if (!negated) return result;
    return binary(ExprKind::kNot, at_line, "", std::move(result), nullptr);
  }
  bool at_test_argument() const {
    switch (now().kind) {
      case TokenKind::kName: return !sees_name("else") && !sees_name("or") && !sees_name("and");
      case TokenKind::kString:
      case TokenKind::kInteger:
      case TokenKind::kFloat: return true;
      default: return sees("[") || sees("{");
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int num_blocks_ = 0;
  int num_expressions_ = 0;
  int num_loops_ = 0;  // around the statement, in its function
};

}  // namespace

SyntaxTree parse(std::string_view source) {
  if (source.size() > kMaxSource) {
    throw TemplateError(fmt::format("the template has more than {} bytes", kMaxSource), 0,
                        TemplateError::Reason::kLimit);
  }
  if (!is_utf8(source)) throw TemplateError("the template is not UTF-8");
  return Parser(source).parse();
}

}  // namespace pagedinfer::jinja
