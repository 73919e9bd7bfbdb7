// Which of a library's algorithms makes a product fastest: measured once a shape on a machine, and
// kept as a text, so that the next start takes the same one, which also means the same bits.
//
//   tessera products 1
//   NVIDIA H100 80GB HBM3 sm_90 cuBLASLt 130000 | m=2048 … f32 | 33554432 1.25e-05 1f 0 … | 9c01…
//
// A line is a machine and its library, a product, what was chosen (workspace, seconds, the
// algorithm's words in hexadecimal), and a checksum of all before it. Attention has such lines too,
// which say by what it is made (kernels/gpu_attention.h):
//
//   … | attention cuDNN 91900 b=4 t=1024 … bf16 | eng2_k24=7 4 25 256 9.1e-05 | 77e0…
//   … | attention cuDNN 91900 b=4 t=1024 … gradient bf16 | own 0 0 0 0.000412 | 03d5…
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/matmul.h"

namespace tessera::kernels {

// An algorithm as its library describes it, in words that only the same version of it can read.
using AlgorithmWords = std::array<uint64_t, 8>;

struct ProductChoice {
  AlgorithmWords algorithm{};
  int64_t workspace_bytes = 0;
  double seconds = 0;
  bool operator==(const ProductChoice&) const = default;
};

// By what attention is made: a plan of cuDNN by its name, or our own kernels.
struct AttentionChoice {
  std::string plan = kOwn;
  int64_t samples = 0, kv = 0;  // of a run of the plan: how many, of how many groups of heads
  int64_t workspace_bytes = 0;
  double seconds = 0;
  bool operator==(const AttentionChoice&) const = default;

  static constexpr const char* kOwn = "own";
  bool own() const { return plan == kOwn; }
};

class ProductChoices {
 public:
  // Choices of other machines than this one are kept in the text and never found.
  explicit ProductChoices(std::string machine) : machine_(std::move(machine)) {}

  const ProductChoice* find(const MatmulShape& shape) const;  // nullptr: none yet
  void add(const MatmulShape& shape, const ProductChoice& choice);
  // `text` is the attention's with its library, without spaces at its ends.
  const AttentionChoice* find_attention(const std::string& text) const;
  void add_attention(const std::string& text, const AttentionChoice& choice);
  int64_t size() const;  // of this machine, attention too
  // Of this machine: how many shapes of attention there are, and how many are cuDNN's.
  std::pair<int64_t, int64_t> attention_count() const;
  bool changed() const { return changed_; }  // something was added since the last text was read

  std::string text() const;
  // Adds what a text says, which `source` names. Returns a sentence for each line that is damaged,
  // which counts as if it were not there; of a text that is none at all, one for the whole.
  std::vector<std::string> read(std::string_view text, const std::string& source);

 private:
  using Key = std::pair<std::string, std::string>;  // machine, product
  std::string machine_;
  std::map<Key, ProductChoice> choices_;
  std::map<Key, AttentionChoice> attention_;
  bool changed_ = false;
};

// What a product is, beside its operands' bytes: "m=2048 n=768 k=768 nt batch=1 … bf16 bf16 f32".
std::string product_text(const MatmulShape& shape);

// Which of the candidates is fastest: time_s(i) runs the i-th a few times and says what one run
// took. Each has its turn kProductRounds times, and its best counts, since what disturbs only
// slows. The first, which the library's own rule prefers, stays unless another is faster by more
// than kProductGain of it. A candidate that cannot run says so by a time that is no number; where
// none can, the first is returned.
struct FastestProduct {
  size_t index = 0;
  double seconds = 0;
};
constexpr int kProductRounds = 3;
constexpr double kProductGain = 0.02;
FastestProduct fastest_product(size_t candidates, const std::function<double(size_t)>& time_s);

}  // namespace tessera::kernels
