// Changes one or a few values of a checkpoint's index.json as somebody with bad intentions would: the
// text stays JSON, and its checksum is right again.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/checksum.h"

namespace tessera {

class IndexMutator {
 public:
  explicit IndexMutator(uint64_t seed) : random_(seed) {}

  // Throws Error where `index` is not JSON.
  std::string mutate(std::string_view index) {
    Tree root = parse_json(index, "index");
    if (auto* members = std::get_if<Tree::Members>(&root.value)) {
      std::erase_if(*members, [](const auto& m) { return m.first == "xxh3"; });
      for (size_t left = 1 + pick(3); left > 0 && !members->empty(); --left)
        change((*members)[pick(members->size())].second);  // large sections do not hide small ones
    }
    return with_checksum(to_json(root));
  }

  // The text of an object with its checksum as the last member.
  static std::string with_checksum(std::string body) {
    if (body.ends_with('}')) body.pop_back();
    return body + fmt::format(",\n\"xxh3\":\"{}\"}}\n", checksum_text(checksum_of(body)));
  }

 private:
  size_t pick(size_t n) { return static_cast<size_t>(random_() % std::max<size_t>(n, 1)); }

  static void collect(Tree& t, std::vector<Tree*>& out) {
    out.push_back(&t);
    if (auto* list = std::get_if<Tree::List>(&t.value))
      for (Tree& e : *list) collect(e, out);
    if (auto* members = std::get_if<Tree::Members>(&t.value))
      for (auto& m : *members) collect(m.second, out);
  }

  Tree number() {
    constexpr int64_t kNumbers[] = {0,         1,         -1,       2,          3,       7,
                                    16,        63,        64,       127,        1000,    INT32_MAX,
                                    INT32_MIN, 1LL << 31, 1LL << 32, 1LL << 53, INT64_MAX, INT64_MIN};
    constexpr double kDoubles[] = {0.0, -0.5, 0.25, 1.5, 1e-300, 1e300, -1e300};
    if (pick(4) == 0) return Tree(kDoubles[pick(std::size(kDoubles))]);
    return Tree(kNumbers[pick(std::size(kNumbers))]);
  }

  Tree text() {
    const std::string texts[] = {"",      "gpt2",   "neox",  "llama", "t5",  "qwen2",
                                 "f32",   "i64",    "bf16",  "u8",    "../x", "\x1b]0;title\x07",
                                 "\xff\xfe", "0000000000000000", std::string(5000, 'a'), "a\nb"};
    return Tree(texts[pick(std::size(texts))]);
  }

  Tree any() {
    switch (pick(7)) {
      case 0:
        return Tree();
      case 1:
        return Tree(pick(2) == 0);
      case 2:
        return text();
      case 3:
        return Tree::list();
      case 4:
        return Tree::object();
      default:
        return number();
    }
  }

  // Of numbers and texts mostly others of their kind: another kind is found at once.
  void change(Tree& section) {
    std::vector<Tree*> nodes;
    collect(section, nodes);
    Tree& t = *nodes[pick(nodes.size())];
    auto* list = std::get_if<Tree::List>(&t.value);
    auto* members = std::get_if<Tree::Members>(&t.value);
    auto* integer = std::get_if<int64_t>(&t.value);
    if (integer != nullptr && pick(4) == 0) {
      *integer += static_cast<int64_t>(pick(5)) - 2;
    } else if (integer != nullptr || std::holds_alternative<double>(t.value)) {
      t.value = (pick(8) == 0 ? any() : number()).value;
    } else if (t.as_string() != nullptr) {
      t.value = (pick(8) == 0 ? any() : text()).value;
    } else if (list != nullptr && !list->empty() && pick(8) > 0) {
      const auto at = list->begin() + static_cast<std::ptrdiff_t>(pick(list->size()));
      if (pick(2) == 0)
        list->erase(at);
      else
        list->push_back(Tree(*at));
    } else if (members != nullptr && !members->empty() && pick(8) > 0) {
      members->erase(members->begin() + static_cast<std::ptrdiff_t>(pick(members->size())));
    } else {
      t.value = any().value;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace tessera
