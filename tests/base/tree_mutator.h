// Changes values of a parsed document as an attacker would. The result is a tree again, so it
// reaches readers that randomly changed bytes would not reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/tree.h"

namespace tessera {

class TreeMutator {
 public:
  explicit TreeMutator(uint64_t seed) : random_(seed) {}

  size_t pick(size_t n) { return static_cast<size_t>(random_() % std::max<size_t>(n, 1)); }

  // Changes one node. Numbers and texts mostly keep their kind: a reader rejects another kind at
  // once.
  void change(Tree& section) {
    std::vector<Tree*> nodes;
    collect(section, nodes);
    Tree& t = *nodes[pick(nodes.size())];
    auto* list = std::get_if<Tree::List>(&t.value);
    auto* members = std::get_if<Tree::Members>(&t.value);
    auto* integer = std::get_if<int64_t>(&t.value);
    if (integer != nullptr && pick(4) == 0) {
      const auto moved = static_cast<uint64_t>(*integer) + pick(5) - 2;
      *integer = static_cast<int64_t>(moved);
    } else if (integer != nullptr || std::holds_alternative<double>(t.value)) {
      t.value = (pick(8) == 0 ? any() : number()).value;
    } else if (t.as_string() != nullptr) {
      t.value = (pick(8) == 0 ? any() : text()).value;
    } else if (list != nullptr && !list->empty() && pick(8) > 0) {
      const size_t at = pick(list->size());
      if (pick(2) == 0)
        list->erase(list->begin() + static_cast<std::ptrdiff_t>(at));
      else
        list->push_back(Tree((*list)[at]));
    } else if (members != nullptr && !members->empty() && pick(8) > 0) {
      members->erase(members->begin() + static_cast<std::ptrdiff_t>(pick(members->size())));
    } else {
      t.value = any().value;
    }
  }

 private:
  static void collect(Tree& t, std::vector<Tree*>& out) {
    out.push_back(&t);
    if (auto* list = std::get_if<Tree::List>(&t.value))
      for (Tree& e : *list) collect(e, out);
    if (auto* members = std::get_if<Tree::Members>(&t.value))
      for (auto& m : *members) collect(m.second, out);
  }

  Tree number() {
    constexpr int64_t kNumbers[] = {
        0,   1,    -1,        2,         3,         7,         16,        63,        64,       127,
        257, 1000, INT32_MAX, INT32_MIN, 1LL << 31, 1LL << 32, 1LL << 53, INT64_MAX, INT64_MIN};
    constexpr double kDoubles[] = {0.0, -0.5, 0.25, 1.5, 1e-300, 1e300, -1e300};
    if (pick(4) == 0) return Tree(kDoubles[pick(std::size(kDoubles))]);
    return Tree(kNumbers[pick(std::size(kNumbers))]);
  }

  Tree text() {
    static const std::string kTexts[] = {"",
                                         " ",
                                         "a",
                                         "gpt2",
                                         "neox",
                                         "llama",
                                         "t5",
                                         "qwen2",
                                         "f32",
                                         "i64",
                                         "u8",
                                         "../x",
                                         "a\nb",
                                         "\x1b]0;title\x07",
                                         "\xff",
                                         "0000000000000000",
                                         "BPE",
                                         "NFC",
                                         "Sequence",
                                         std::string(600, 'a'),
                                         std::string(70'000, 'a')};
    return Tree(kTexts[pick(std::size(kTexts))]);
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

  std::mt19937_64 random_;
};

}  // namespace tessera
