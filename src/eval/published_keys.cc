// Computes the keys of an example from a line of the published dataset: each expression is rendered
// as JSON, which is parsed again, so lists and numbers keep their kind.
#include "eval/published_keys.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <cctype>
#include <set>

#include "base/error.h"
#include "jinja/template.h"

namespace tessera::eval {
namespace {

// Splits "LEFT<separator>RIGHT" at the first separator.
std::pair<std::string, std::string> halves(const std::string& entry, std::string_view separator,
                                           const char* form) {
  const size_t at = entry.find(separator);
  if (at == entry.npos || at == 0) throw Error("'{}' is not of the form \"{}\"", entry, form);
  return {entry.substr(0, at), entry.substr(at + separator.size())};
}

// Returns the names in an expression that are neither in quotes nor after a dot or a bar, nor
// followed by a bracket.
std::vector<std::string> names_in(std::string_view expression) {
  const std::set<std::string_view> words = {"if", "else", "is", "in", "not", "and", "or", "none"};
  std::vector<std::string> names;
  char quote = 0, before = 0;
  for (size_t i = 0; i < expression.size();) {
    const char c = expression[i];
    if (quote != 0 || c == '\'' || c == '"') {
      quote = quote == 0 ? c : c == quote ? '\0' : quote;
      before = c;
      ++i;
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(c)) == 0) {
      if (c != ' ') before = c;
      ++i;
      continue;
    }
    size_t end = i;
    while (
        end < expression.size() &&
        (std::isalnum(static_cast<unsigned char>(expression[end])) != 0 || expression[end] == '_'))
      ++end;
    const std::string_view name = expression.substr(i, end - i);
    const bool called = end < expression.size() && expression[end] == '(';
    if (before != '.' && before != '|' && !called && !words.contains(name))
      names.emplace_back(name);
    before = 'a';
    i = end;
  }
  return names;
}

}  // namespace

struct PublishedKeys::Parsed {
  struct Key {
    std::string name;
    jinja::Template expression;
  };
  struct Replacement {
    RE2 pattern;
    std::string text;
  };
  std::vector<Key> keys;
  std::vector<std::unique_ptr<Replacement>> replacements;
  std::set<std::string> needed;

  // Applies the replacements to a text, or to each text of a list.
  void replace_in(Tree& value) const {
    if (auto* text = std::get_if<std::string>(&value.value))
      for (const auto& r : replacements) RE2::GlobalReplace(text, r->pattern, r->text);
    if (auto* list = std::get_if<Tree::List>(&value.value))
      for (Tree& element : *list) replace_in(element);
  }
};

PublishedKeys::PublishedKeys(const std::vector<std::string>& published,
                             const std::vector<std::string>& replace)
    : parsed_(new Parsed) {
  constexpr size_t kLongestPattern = 4096;  // bytes
  for (const std::string& entry : published) {
    const auto [name, expression] = halves(entry, " = ", "NAME = EXPRESSION");
    parsed_->keys.push_back(
        {name, jinja::Template(fmt::format("{{{{ ({}) | tojson }}}}", expression),
                               fmt::format("published: {}", name))});
    for (std::string& n : names_in(expression)) parsed_->needed.insert(std::move(n));
  }
  RE2::Options quiet;
  quiet.set_log_errors(false);
  for (const std::string& entry : replace) {
    const auto [pattern, text] = halves(entry, " => ", "PATTERN => TEXT");
    if (pattern.size() > kLongestPattern)
      throw Error("replace: a pattern has {} bytes, expected at most {}", pattern.size(),
                  kLongestPattern);
    parsed_->replacements.emplace_back(new Parsed::Replacement{RE2(pattern, quiet), text});
    std::string error;
    const RE2& p = parsed_->replacements.back()->pattern;
    if (!p.ok() || !p.CheckRewriteString(text, &error))
      throw Error("replace: '{}' cannot be used: {}", entry, p.ok() ? error : p.error());
  }
}

PublishedKeys::~PublishedKeys() = default;

bool PublishedKeys::apply_to(const Tree& line) const {
  return !parsed_->keys.empty() && line.find(parsed_->keys.front().name) == nullptr;
}

Tree PublishedKeys::computed(const Tree& line, const std::string& place) const {
  Tree out = line;
  for (const Parsed::Key& key : parsed_->keys) {
    try {
      Tree value = parse_json(key.expression.render(line).text, key.name);
      parsed_->replace_in(value);
      out.set(key.name, std::move(value));
    } catch (const Error& e) {
      throw Error("{}: '{}' cannot be computed from the keys {} of the published dataset: {}",
                  place, key.name, needed(), e.what());
    }
  }
  return out;
}

std::string PublishedKeys::needed() const {
  return fmt::format("{}", fmt::join(parsed_->needed, ", "));
}

}  // namespace tessera::eval
