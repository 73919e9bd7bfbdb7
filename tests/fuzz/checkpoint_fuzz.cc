// Any bytes as the index.json of a checkpoint. The checksum at its end is put right, so that what
// lies behind it is reached; bytes that begin with "raw:" are taken as they are. What is accepted
// is read, whole and in part.
#include <cstdint>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/index.h"
#include "checkpoint/stored_model.h"
#include "tests/checkpoint/mutated_index.h"
#include "tests/fuzz/custom_mutator.h"
#include "tests/fuzz/scratch_folder.h"

namespace tessera {
namespace {

constexpr std::string_view kRaw = "raw:";
constexpr int64_t kMaxBytes = 1 << 20;  // read back at most; a shape may ask for far more

void read_back(checkpoint::CheckpointReader& reader) {
  for (const checkpoint::StoredTensor& t : reader.tensors()) {
    const int64_t bytes = t.shape.elements() * size_of(t.dtype);
    if (bytes > kMaxBytes) continue;
    std::vector<std::byte> out(static_cast<size_t>(bytes) + 1);
    reader.read(t.name, {out.data(), t.dtype, t.shape});
    std::vector<int64_t> begin(static_cast<size_t>(t.shape.rank()), 0), end = t.shape.dims();
    if (end.empty() || end[0] < 2) continue;
    begin[0] = 1;
    Shape part = t.shape;
    part[0] -= 1;
    reader.read(t.name, begin, end, {out.data(), t.dtype, part});
    const auto whole = reader.whole(t);
    CHECK(whole.empty() || static_cast<int64_t>(whole.size()) == bytes, "{}", t.name);
  }
}

void open_checkpoint(std::string_view index) {
  static const Path folder = [] {
    const Path f = scratch_folder() / "20";
    std::filesystem::create_directories(f);
    put(f / "pieces-0.bin", std::string(512, '\0'));
    put(f / "pieces-1.bin", std::string(512, '\0'));
    put(f / checkpoint::kTokenizerFile, "{}");
    return f;
  }();
  put(folder / checkpoint::kIndexFile, index);
  try {
    // What is accepted is written in the same words again.
    const std::string text = checkpoint::to_text(checkpoint::parse_index(index, "index.json"));
    CHECK(checkpoint::to_text(checkpoint::parse_index(text, "again")) == text,
          "{} is read as something else", text);
    checkpoint::stored_model(checkpoint::CheckpointReader(folder));
  } catch (const Error&) {
  }
  try {
    checkpoint::CheckpointReader reader(folder);
    read_back(reader);
    reader.verify();
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace tessera;
  std::string text(reinterpret_cast<const char*>(data), bytes);
  if (text.starts_with(kRaw)) {
    open_checkpoint(std::string_view(text).substr(kRaw.size()));
    return 0;
  }
  const size_t tail = text.rfind(",\n\"xxh3\":\"");
  if (tail != std::string::npos) text.resize(tail);
  text += fmt::format(",\n\"xxh3\":\"{}\"}}\n",
                      checkpoint::checksum_text(checkpoint::checksum_of(text)));
  open_checkpoint(text);
  return 0;
}

// Values of the header and the list of tensors are changed; only now and then bytes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace tessera;
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    std::string text(reinterpret_cast<const char*>(data), size);
    if (text.starts_with(kRaw)) return LLVMFuzzerMutate(data, size, most);
    return put_mutated(checkpoint::IndexMutator(seed).mutate(text), data, size, most);
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, most);
  }
}
