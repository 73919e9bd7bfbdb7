// Any .idx next to a .bin of any size, with any .json, gives a dataset that can be read to its end,
// or an Error. The input: 2 bytes size of the .bin, 2 bytes size of the .idx, the .idx, and the
// rest as .json (none if it is empty).
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "data/dataset_about.h"
#include "data/indexed_dataset.h"
#include "tests/fuzz/scratch_folder.h"

using namespace tessera;

namespace {

std::string file(const char* suffix) { return (scratch_folder() / "d").string() + suffix; }

void put_tokens(size_t bytes) {
  static size_t before = SIZE_MAX;
  if (bytes != before) put(file(".bin"), std::string(bytes, '\1'));
  before = bytes;
}

void put_about(std::string_view about) {
  static bool is_there = false;
  if (!about.empty()) put(file(".json"), about);
  if (about.empty() && is_there) ::unlink(file(".json").c_str());
  is_there = !about.empty();
}

void read_all(const data::IndexedDataset& data) {
  int64_t tokens = 0;
  std::vector<int32_t> ids;
  for (int64_t s = 0; s < data.sequences(); ++s) {
    CHECK(data.first_token(s) == tokens, "sequence {} at {}", s, data.first_token(s));
    ids.resize(static_cast<size_t>(data.length(s)));
    data.read(tokens, ids);
    tokens += data.length(s);
    if (!ids.empty()) CHECK(data.sequence_of(tokens - 1) == s, "token {}", tokens - 1);
  }
  CHECK(tokens == data.tokens(), "{} tokens of {}", tokens, data.tokens());
  CHECK(data.first_sequence(data.documents()) == data.sequences(), "the last document");
}

// Lengths that are read from the file when they are needed are those that are held in memory.
void compare_unheld(const data::IndexedDataset& held, const data::IndexedDataset& unheld) {
  CHECK(held.identity() == unheld.identity(), "{}, {}", held.identity(), unheld.identity());
  read_all(unheld);
  const auto compare = [&](int64_t first, std::span<const int32_t> lengths) {
    for (size_t i = 0; i < lengths.size(); ++i)
      CHECK(lengths[i] == held.length(first + static_cast<int64_t>(i)), "sequence {}", first);
  };
  held.visit_lengths(0, held.sequences(), compare);
  unheld.visit_lengths(0, held.sequences(), compare);
}

template <class Act>
void expect_error(Act&& act) {
  try {
    act();
  } catch (const Error&) {
    return;
  }
  CHECK(false, "a changed file is not noticed");
}

// Changes both files while they are open.
void change_files(const data::IndexedDataset& unheld, size_t index_bytes) {
  unheld.require_unchanged();
  put_tokens(static_cast<size_t>(unheld.tokens() * size_of(unheld.dtype())) + 1);
  expect_error([&] { unheld.require_unchanged(); });
  put(file(".idx"), std::string(index_bytes, '\xff'));
  expect_error([&] { unheld.first_sequence(0); });
  if (unheld.sequences() == 0) return;
  expect_error([&] { unheld.length(0); });
  expect_error([&] { unheld.visit_lengths(0, 1, [](int64_t, std::span<const int32_t>) {}); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint16_t bin = 0, idx = 0;
  if (size < 4) return 0;
  std::memcpy(&bin, data, 2);
  std::memcpy(&idx, data + 2, 2);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 4, size - 4);
  const std::string_view index = rest.substr(0, idx);
  put_tokens(bin);
  put(file(".idx"), index);
  put_about(rest.substr(index.size()));
  try {
    const data::IndexedDataset dataset(scratch_folder() / "d");
    read_all(dataset);
    const auto described = data::read_about(dataset);
    if (described) {
      const std::string once = data::to_json(*described);
      put_about(once);
      CHECK(data::to_json(*data::read_about(dataset)) == once, "{} reads back otherwise", once);
    }
    const data::IndexedDataset unheld(scratch_folder() / "d", 0);
    compare_unheld(dataset, unheld);
    change_files(unheld, index.size());
  } catch (const Error&) {
  }
  return 0;
}
