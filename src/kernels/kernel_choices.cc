// The text form of kernel choices, one line per choice (kernel_choices.h). Each line has its own
// checksum, so a damaged line costs one new measurement and not the whole file. Lines of other
// machines are kept.
#include "kernels/kernel_choices.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/dtype.h"

namespace tessera::kernels {
namespace {

constexpr std::string_view kHeader = "tessera products 1", kBetween = " | ";
constexpr std::string_view kAttention = "attention ";  // prefix of the lines of attention

// FNV-1a. It detects accidental damage, not deliberate changes.
uint64_t checksum(std::string_view text) {
  constexpr uint64_t kOffset = 0xcbf29ce484222325u, kPrime = 0x100000001b3u;
  uint64_t h = kOffset;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * kPrime;
  return h;
}

// Returns the text before `mark` and removes both from `text`; without a mark, the whole text.
std::string_view take(std::string_view& text, std::string_view mark) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + mark.size(), text.size()));
  return part;
}

template <class T, class... Format>
bool number(std::string_view word, T& x, Format... format) {
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, x, format...);
  return error == std::errc() && stop == end;
}

std::string choice_text(const GemmChoice& c) {
  std::string text = fmt::format("{} {}", c.workspace_bytes, c.seconds);
  for (const uint64_t w : c.algorithm) text += fmt::format(" {:x}", w);
  return text;
}

std::optional<GemmChoice> read_choice(std::string_view text) {
  GemmChoice c;
  if (!number(take(text, " "), c.workspace_bytes) || c.workspace_bytes < 0) return std::nullopt;
  if (!number(take(text, " "), c.seconds) || !(c.seconds > 0)) return std::nullopt;
  for (uint64_t& w : c.algorithm)
    if (!number(take(text, " "), w, 16)) return std::nullopt;
  if (!text.empty()) return std::nullopt;
  return c;
}

std::string choice_text(const AttentionChoice& c) {
  return fmt::format("{} {} {} {} {}", c.plan, c.samples, c.kv, c.workspace_bytes, c.seconds);
}

std::optional<AttentionChoice> read_attention(std::string_view text) {
  AttentionChoice c;
  c.plan = take(text, " ");
  for (int64_t* n : {&c.samples, &c.kv, &c.workspace_bytes})
    if (!number(take(text, " "), *n) || *n < 0) return std::nullopt;
  if (!number(text, c.seconds) || !(c.seconds > 0)) return std::nullopt;
  if (c.plan.empty() || (!c.own() && (c.samples == 0 || c.kv == 0))) return std::nullopt;
  return c;
}

template <class Choice>
std::string line_text(const std::string& machine, const std::string& product, const Choice& c) {
  std::string line =
      fmt::format("{}{}{}{}{}", machine, kBetween, product, kBetween, choice_text(c));
  return fmt::format("{}{}{:016x}\n", line, kBetween, checksum(line));
}

std::string_view fp8_text(Fp8 f) {
  return f == Fp8::kNone ? "" : f == Fp8::kE4M3 ? "/e4m3" : "/e5m2";
}

}  // namespace

// Returns the key of a GEMM: everything that a library's choice of an algorithm may depend on.
std::string gemm_text(const MatmulShape& s) {
  return fmt::format(
      "m={} n={} k={} {}{}{} batch={} ld={},{},{} stride={},{},{} alpha={} {}{} {}{} {}", s.m, s.n,
      s.k, s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n', s.accumulate ? " added" : "",
      s.batch, s.lda, s.ldb, s.ldc, s.stride_a, s.stride_b, s.stride_c, s.alpha, name_of(s.a),
      fp8_text(s.fp8_a), name_of(s.b), fp8_text(s.fp8_b), name_of(s.c));
}

const GemmChoice* KernelChoices::find(const MatmulShape& shape) const {
  const auto found = choices_.find({machine_, gemm_text(shape)});
  return found == choices_.end() ? nullptr : &found->second;
}

void KernelChoices::add(const MatmulShape& shape, const GemmChoice& choice) {
  choices_[{machine_, gemm_text(shape)}] = choice;
  changed_ = true;
}

const AttentionChoice* KernelChoices::find_attention(const std::string& text) const {
  const auto found = attention_.find({machine_, fmt::format("{}{}", kAttention, text)});
  return found == attention_.end() ? nullptr : &found->second;
}

void KernelChoices::add_attention(const std::string& text, const AttentionChoice& choice) {
  attention_[{machine_, fmt::format("{}{}", kAttention, text)}] = choice;
  changed_ = true;
}

std::pair<int64_t, int64_t> KernelChoices::attention_count() const {
  std::pair<int64_t, int64_t> n;
  for (const auto& [key, choice] : attention_) {
    if (key.first != machine_) continue;
    ++n.first;
    n.second += !choice.own();
  }
  return n;
}

int64_t KernelChoices::size() const {
  int64_t n = attention_count().first;
  for (const auto& [key, choice] : choices_) n += key.first == machine_;
  return n;
}

std::string KernelChoices::text() const {
  std::string text = fmt::format("{}\n", kHeader);
  for (const auto& [key, choice] : choices_) text += line_text(key.first, key.second, choice);
  for (const auto& [key, choice] : attention_) text += line_text(key.first, key.second, choice);
  return text;
}

std::vector<std::string> KernelChoices::read(std::string_view text, const std::string& source) {
  changed_ = false;
  if (take(text, "\n") != kHeader)
    return {fmt::format("{} does not begin with '{}': its kernels are measured again.", source,
                        kHeader)};
  std::vector<std::string> damaged;
  for (int line = 2; !text.empty(); ++line) {
    const std::string_view all = take(text, "\n");
    std::string_view rest = all;
    const std::string machine(take(rest, kBetween)), product(take(rest, kBetween));
    const std::string_view chosen = take(rest, kBetween);
    const bool is_attention = product.starts_with(kAttention);
    const auto choice = is_attention ? std::nullopt : read_choice(chosen);
    const auto attention = is_attention ? read_attention(chosen) : std::nullopt;
    uint64_t sum = 0;
    const size_t end = all.rfind(kBetween);
    const bool whole = number(rest, sum, 16) && sum == checksum(all.substr(0, end));
    if (choice && whole)
      choices_[{machine, product}] = *choice;
    else if (attention && whole)
      attention_[{machine, product}] = *attention;
    else
      damaged.push_back(
          fmt::format("{}:{}: damaged line: its kernel is measured again.", source, line));
  }
  return damaged;
}

FastestGemm fastest_gemm(size_t candidates, const std::function<double(size_t)>& time_s) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(candidates, kNever);
  // Runs all candidates once per round instead of all runs of one candidate at once, so a
  // disturbance affects all of them. The minimum counts, since a disturbance only slows runs down.
  for (int round = 0; round < kGemmRounds; ++round)
    for (size_t i = 0; i < candidates; ++i)
      if (const double s = time_s(i); s < best[i]) best[i] = s;
  FastestGemm fastest{0, best.at(0)};
  for (size_t i = 1; i < candidates; ++i)
    if (best[i] < fastest.seconds) fastest = {i, best[i]};
  // The first candidate is the library's own preference; a small gain may be noise and does not
  // replace it.
  if (fastest.seconds > best[0] * (1 - kGemmGain)) return {0, best[0]};
  return fastest;
}

}  // namespace tessera::kernels
