// Searches the tables of foreign names.
#include "config/foreign_keys.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/renamed_keys.h"

namespace tessera::config {
namespace {

std::string normalized(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out(name);
  for (char& c : out)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

const ForeignKey* entry(std::string_view name) {
  const std::span<const ForeignKey> keys = foreign_keys();
  const auto at = std::ranges::find(keys, name, &ForeignKey::name);
  return at == keys.end() ? nullptr : &*at;
}

// Tries the whole path, then its ends from the longest, then its beginnings from the longest.
const ForeignKey* find_entry(std::string_view path) {
  constexpr size_t kLongest = 256;  // no known name is so long
  if (path.size() > kLongest) return nullptr;
  if (const ForeignKey* found = entry(path)) return found;
  for (size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
    if (const ForeignKey* found = entry(path.substr(dot + 1)); found && !found->top_level)
      return found;
  for (size_t dot = path.rfind('.'); dot != path.npos && dot > 0; dot = path.rfind('.', dot - 1))
    if (const ForeignKey* found = entry(path.substr(0, dot))) return found;
  return nullptr;
}

class ForeignKeySearch {
 public:
  ForeignKeySearch(const std::string& source, std::span<const Field> fields)
      : source_(source), fields_(fields) {}

  void reject(const std::string& path, const Tree& member) const {
    if (is_field(path)) return reject_value(path, member);
    const Tree::Members* members = member.as_members();
    if (members != nullptr && !members->empty()) {
      // The members of an unknown group have more specific names than the group.
      for (const auto& [name, below] : *members) reject(path + '.' + name, below);
      return;
    }
    if (is_section(path) || !renamed_path(path).empty()) return;
    const std::string advice = foreign_key_advice(path);
    if (advice.empty()) return;
    throw Error("{}: unknown key '{}' {}", place(member.key_line, member.key_column), path, advice);
  }

 private:
  void reject_value(const std::string& path, const Tree& value) const {
    const std::string advice = foreign_value_advice(path, value);
    if (advice.empty()) return;
    const std::string* text = value.as_string();
    throw Error("{}: {}: found '{}'; {}", place(value.line, value.column), path,
                text ? *text : to_json(value), advice);
  }
  std::string place(int line, int column) const {
    return line == 0 ? source_ : fmt::format("{}:{}:{}", source_, line, column);
  }
  bool is_field(const std::string& path) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const Field& f) { return f.path == path; });
  }
  bool is_section(const std::string& path) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const Field& f) { return f.path.starts_with(path + '.'); });
  }

  const std::string& source_;
  std::span<const Field> fields_;
};

}  // namespace

std::span<const ForeignKey> foreign_keys() {
  static const std::vector<ForeignKey> all = [] {
    const auto general = general_foreign_keys(), tuning = foreign_tuning_keys();
    std::vector<ForeignKey> both(general.begin(), general.end());
    both.insert(both.end(), tuning.begin(), tuning.end());
    return both;
  }();
  return all;
}

std::string foreign_key_advice(std::string_view name) {
  const ForeignKey* found = find_entry(normalized(name));
  if (found == nullptr) return {};
  std::string advice(found->advice);
  std::erase(advice, '`');
  return fmt::format("({}): {}", found->program,
                     advice.empty() ? fmt::format("use {}", found->key) : advice);
}

void reject_foreign_keys(const Tree& tree, const std::string& source,
                         std::span<const Field> fields) {
  const ForeignKeySearch search(source, fields);
  if (tree.as_members() == nullptr) return;
  for (const auto& [name, member] : *tree.as_members()) search.reject(name, member);
}

void reject_foreign_key(const Override& override, std::span<const Field> fields) {
  const std::string source = "command line";
  // The value of a text key may begin with a brace: data.template={prompt}{response}.
  const bool is_known = std::any_of(fields.begin(), fields.end(),
                                    [&](const Field& f) { return f.path == override.path; });
  const bool is_group = !is_known && override.text.starts_with('{') && override.text.ends_with('}');
  const std::string text = fmt::format("{}: {}={}", source, override.path, override.text);
  const Tree value = is_group ? parse_yaml(override.text, text) : Tree(override.text);
  ForeignKeySearch(source, fields).reject(override.path, value);
}

}  // namespace tessera::config
