// The library's fastest algorithm for each GEMM: measured once per shape on a machine and stored as
// text, so that the next start uses the same algorithm and computes the same bits.
//
//   tessera products 1
//   NVIDIA H100 80GB HBM3 sm_90 cuBLASLt 130000 | m=2048 … f32 | 33554432 1.25e-05 1f 0 … | 9c01…
//
// A line has a machine and its library, a GEMM, the choice (workspace, seconds, the 64-bit words of
// the algorithm in hexadecimal), and a checksum of the rest of the line. The lines of attention
// name the kernel that computes it (kernels/gpu_attention.h):
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

// An algorithm as its library describes it; only the same version of the library can read it.
using AlgorithmWords = std::array<uint64_t, 8>;

struct GemmChoice {
  AlgorithmWords algorithm{};
  int64_t workspace_bytes = 0;
  double seconds = 0;
  bool operator==(const GemmChoice&) const = default;
};

// The kernel of attention: a plan of cuDNN by its name, or our own kernels.
struct AttentionChoice {
  std::string plan = kOwn;
  int64_t samples = 0, kv = 0;  // samples and groups of heads per run of the plan
  int64_t workspace_bytes = 0;
  double seconds = 0;
  bool operator==(const AttentionChoice&) const = default;

  static constexpr const char* kOwn = "own";
  bool own() const { return plan == kOwn; }
};

class KernelChoices {
 public:
  // Choices of other machines are kept in the text, but not returned by find().
  explicit KernelChoices(std::string machine) : machine_(std::move(machine)) {}

  const GemmChoice* find(const MatmulShape& shape) const;  // nullptr: none yet
  void add(const MatmulShape& shape, const GemmChoice& choice);
  // `text` describes the attention and its library, without leading or trailing spaces.
  const AttentionChoice* find_attention(const std::string& text) const;
  void add_attention(const std::string& text, const AttentionChoice& choice);
  int64_t size() const;  // choices of this machine, including attention
  // Returns the number of attention shapes of this machine, and how many of them use cuDNN.
  std::pair<int64_t, int64_t> attention_count() const;
  bool changed() const { return changed_; }  // a choice was added since the last read()

  std::string text() const;
  // Adds the choices of a text. Returns a message for each damaged line, which is skipped, or one
  // message if the text has a wrong first line. `source` names the text in messages.
  std::vector<std::string> read(std::string_view text, const std::string& source);

 private:
  using Key = std::pair<std::string, std::string>;  // machine, GEMM
  std::string machine_;
  std::map<Key, GemmChoice> choices_;
  std::map<Key, AttentionChoice> attention_;
  bool changed_ = false;
};

// Returns the text of a GEMM shape: "m=2048 n=768 k=768 nt batch=1 … bf16 bf16 f32".
std::string gemm_text(const MatmulShape& shape);

// Returns the fastest candidate. time_s(i) runs candidate i a few times and returns the seconds of
// one run. Each is timed kGemmRounds times, and its minimum counts, since disturbances only slow
// runs down. The first candidate, which the library prefers, is kept unless another one is faster
// by more than a share of kGemmGain. If a candidate cannot run, time_s returns NaN; if none can,
// the first is returned.
struct FastestGemm {
  size_t index = 0;
  double seconds = 0;
};
constexpr int kGemmRounds = 3;
constexpr double kGemmGain = 0.02;
FastestGemm fastest_gemm(size_t candidates, const std::function<double(size_t)>& time_s);

}  // namespace tessera::kernels
