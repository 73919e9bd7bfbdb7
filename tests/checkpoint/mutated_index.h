// Changes a few values of a checkpoint's index.json; the text stays JSON, and its checksum is
// updated.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "tests/base/tree_mutator.h"

namespace tessera::checkpoint {

class IndexMutator {
 public:
  explicit IndexMutator(uint64_t seed) : mutator_(seed) {}

  // Throws Error where `index` is not JSON.
  std::string mutate(std::string_view index) {
    Tree root = parse_json(index, "index");
    if (auto* members = std::get_if<Tree::Members>(&root.value)) {
      std::erase_if(*members, [](const auto& m) { return m.first == "xxh3"; });
      // By section, so that large ones do not hide small ones; half of them in what programs are
      // compiled from.
      const auto model = std::find_if(members->begin(), members->end(),
                                      [](const auto& m) { return m.first == "model"; });
      for (size_t left = 1 + mutator_.pick(3); left > 0 && !members->empty(); --left) {
        const bool in_model = model != members->end() && mutator_.pick(2) == 0;
        mutator_.change(in_model ? model->second
                                 : (*members)[mutator_.pick(members->size())].second);
      }
    }
    return with_checksum(to_json(root));
  }

  // The text of an object with its checksum as the last member.
  static std::string with_checksum(std::string body) {
    if (body.ends_with('}')) body.pop_back();
    return body + fmt::format(",\n\"xxh3\":\"{}\"}}\n", checksum_text(checksum_of(body)));
  }

 private:
  TreeMutator mutator_;
};

}  // namespace tessera::checkpoint
