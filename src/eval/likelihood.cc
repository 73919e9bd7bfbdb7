#include "eval/likelihood.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kShortestRow = 32;    // rows are as long as the next power of two
constexpr int64_t kTokensAtOnce = 512;  // bounds the logits that are held: × vocabulary × 4 bytes

int64_t row_length(int64_t tokens, int64_t context) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
  return std::clamp(power, std::min(kShortestRow, context), context);
}

// What the model reads of one continuation, all but the last token: at most its context.
struct Row {
  std::vector<int32_t> read;
  std::vector<int32_t> predict;  // by the last of them
};

Row row_of(const Continuation& c, int64_t context) {
  std::vector<int32_t> all = c.context;
  all.insert(all.end(), c.tokens.begin(), c.tokens.end());
  const auto longest = static_cast<size_t>(context) + 1;
  if (all.size() > longest) all.erase(all.begin(), all.end() - static_cast<int64_t>(longest));
  Row row{all, c.tokens};
  row.read.pop_back();
  if (row.predict.size() > row.read.size())
    row.predict.erase(row.predict.begin(),
                      row.predict.end() - static_cast<int64_t>(row.read.size()));
  return row;
}

// ln softmax(logits)[token], summed in double.
double log_probability(std::span<const float> logits, int32_t token, bool& most_probable) {
  const auto top = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - *top);
  const float own = logits[static_cast<size_t>(token)];
  most_probable = own == *top;
  return static_cast<double>(own) - *top - std::log(sum);
}

Likelihood likelihood(const Row& row, std::span<const float> logits, size_t vocabulary) {
  Likelihood out{0, true};
  const size_t first = row.read.size() - row.predict.size();
  for (size_t i = 0; i < row.predict.size(); ++i) {
    bool most_probable = false;
    out.log += log_probability(logits.subspan((first + i) * vocabulary, vocabulary), row.predict[i],
                               most_probable);
    out.greedy = out.greedy && most_probable;
  }
  return out;
}

}  // namespace

Continuation encode_continuation(const Tokenizer& tokenizer, std::string_view context,
                                 std::string_view text) {
  const size_t end = context.find_last_not_of(" \t\r\n");
  const std::string_view before = context.substr(0, end == context.npos ? 0 : end + 1);
  const std::string whole = std::string(context) + std::string(text);
  Continuation c;
  c.context = tokenizer.encode(before);
  const std::vector<int32_t> ids = tokenizer.encode(whole);
  const size_t cut = std::min(c.context.size(), ids.size());
  c.tokens.assign(ids.begin() + static_cast<int64_t>(cut), ids.end());
  if (c.tokens.empty())
    throw Error("nothing to predict: '{}' adds no token to the text before it", text);
  if (!c.context.empty()) return c;
  if (!tokenizer.end_of_text())
    throw Error("a text without a context wants an end-of-text token, and the tokenizer has none");
  c.context = {*tokenizer.end_of_text()};
  return c;
}

int64_t likelihood_bytes(const ModelConfig& model, const ModelOptions& options) {
  const int64_t tokens = row_length(model.context, model.context);
  return logits_bytes(model, std::max<int64_t>(1, kTokensAtOnce / tokens), tokens, options);
}

std::vector<Likelihood> likelihoods(CheckpointReader& checkpoint, std::span<const Continuation> all,
                                    const ModelOptions& options) {
  const ModelConfig model = model_of(checkpoint);
  std::vector<Row> rows;
  for (const Continuation& c : all) rows.push_back(row_of(c, model.context));
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) {
    return row_length(static_cast<int64_t>(rows[i].read.size()), model.context);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<Likelihood> out(rows.size());
  const auto vocabulary = static_cast<size_t>(model.padded_vocabulary());
  for (size_t first = 0; first < order.size();) {
    const int64_t tokens = length(order[first]);
    size_t end = first;
    while (end < order.size() && length(order[end]) == tokens) ++end;
    const int64_t together = std::max<int64_t>(1, kTokensAtOnce / tokens);
    LogitsModel logits(checkpoint, together, tokens, options);
    for (; first < end;) {
      const size_t n = std::min<size_t>(static_cast<size_t>(together), end - first);
      std::vector<int32_t> ids(static_cast<size_t>(together * tokens), 0);
      for (size_t i = 0; i < n; ++i)
        std::copy(rows[order[first + i]].read.begin(), rows[order[first + i]].read.end(),
                  ids.begin() + static_cast<int64_t>(i) * tokens);
      const std::span<const float> found = logits.read(ids);
      const size_t stride = static_cast<size_t>(tokens) * vocabulary;
      for (size_t i = 0; i < n; ++i)
        out[order[first + i]] =
            likelihood(rows[order[first + i]], found.subspan(i * stride, stride), vocabulary);
      first += n;
    }
  }
  return out;
}

}  // namespace tessera
