// Computes log-likelihoods of continuations. Rows are padded to powers of two and grouped by shape,
// so few programs are compiled; rows of one shape are computed several at a time.
#include "eval/likelihood.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace tessera::eval {
namespace {

constexpr int64_t kShortestAnswer = 8;  // for the decoder of an encoder-decoder model

// The model's input for one continuation.
struct Row {
  std::vector<int32_t> read;     // all tokens but the last, truncated to the model's context
  std::vector<int32_t> predict;  // tokens that are predicted at the last positions of `read`
  std::vector<int32_t> source;   // encoder input
};

void keep_last(std::vector<int32_t>& ids, int64_t most) {
  const auto excess = std::ssize(ids) - most;
  if (excess > 0) ids.erase(ids.begin(), ids.begin() + excess);
}

Row row_of(const Continuation& c, int64_t context) {
  std::vector<int32_t> all = c.context;
  all.insert(all.end(), c.tokens.begin(), c.tokens.end());
  // One token more than the context, because the last token is predicted but not read.
  keep_last(all, context + 1);
  Row row{all, c.tokens, {}};
  row.read.pop_back();
  keep_last(row.predict, std::ssize(row.read));
  return row;
}

// Returns the row of a model with an encoder. The decoder begins with id 0.
Row row_beside_encoder(const Continuation& c, int64_t context) {
  Row row{{0}, c.tokens, c.context};
  keep_last(row.source, context);
  keep_last(row.predict, context);
  row.read.insert(row.read.end(), row.predict.begin(), row.predict.end() - 1);
  return row;
}

// The sizes of the program that computes a row.
struct RowShape {
  int64_t tokens, source;
  auto operator<=>(const RowShape&) const = default;
  int64_t together() const { return rows_at_once(std::max(tokens, source)); }
};

RowShape shape_of(const Row& row, int64_t context) {
  const auto tokens = std::ssize(row.read);
  if (row.source.empty()) return {row_length(tokens, context), 0};
  return {row_length(tokens, context, kShortestAnswer),
          row_length(std::ssize(row.source), context)};
}

// A token whose probability is computed, at a row and position of a batch.
struct Asked {
  int64_t row, position;
  int32_t token;
};

// Returns ln softmax(logits)[token] of each, and whether it is the most probable token. The ids may
// be divided among ranks, which combine their maxima and then their sums. Subtracting the maximum
// avoids overflow; the sum is in f64.
std::vector<std::pair<double, bool>> log_probabilities(const LogitsPart& part,
                                                       std::span<const Asked> asked,
                                                       comm::World* world) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  std::vector<double> top, sums(2 * asked.size());  // sums of exponentials, then own logits
  for (const Asked& a : asked) {
    const std::span<const float> logits = part.at(a.row, a.position);
    top.push_back(logits.empty() ? kLowest : *std::max_element(logits.begin(), logits.end()));
  }
  if (world != nullptr) world->all_reduce(top, comm::Reduction::kMax);
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::span<const float> logits = part.at(asked[i].row, asked[i].position);
    for (const float x : logits) sums[i] += std::exp(x - top[i]);
    const int64_t id = asked[i].token - part.first_id;
    if (id >= 0 && id < std::ssize(logits)) sums[asked.size() + i] = logits[id];
  }
  if (world != nullptr) world->all_reduce(sums, comm::Reduction::kSum);
  std::vector<std::pair<double, bool>> out;
  for (size_t i = 0; i < asked.size(); ++i) {
    const double own = sums[asked.size() + i];
    out.emplace_back(own - top[i] - std::log(sums[i]), own == top[i]);
  }
  return out;
}

// Computes the rows of one shape, whose indices are in `which`. The last batch is filled up with
// copies of its last row. `on_rows` receives the number of rows of each batch, without the copies.
void compute(LogitsModel& logits, const std::vector<Row>& rows, const RowShape& shape,
             std::span<const size_t> which, comm::World* world,
             const std::function<void(int64_t)>& on_rows, std::vector<Likelihood>& out) {
  const size_t n = logits.rows();
  // Padding after a row's tokens does not matter: attention is causal, and its logits are not read.
  for (; !which.empty(); which = which.subspan(std::min(n, which.size()))) {
    std::vector<int32_t> ids(n * shape.tokens, 0), sources(n * shape.source, 0);
    std::vector<Asked> asked;
    for (size_t i = 0; i < n; ++i) {
      const Row& row = rows[which[std::min(i, which.size() - 1)]];
      std::ranges::copy(row.read, ids.begin() + i * shape.tokens);
      std::ranges::copy(row.source, sources.begin() + i * shape.source);
      // The logits at position t predict the token after it, so those for the k tokens of the
      // continuation are at the last k positions.
      const auto first = std::ssize(row.read) - std::ssize(row.predict);
      for (int64_t t = 0; i < which.size() && t < std::ssize(row.predict); ++t)
        asked.push_back({static_cast<int64_t>(i), first + t, row.predict[t]});
    }
    logits.run(ids, sources);
    const auto found = log_probabilities(logits.part(), asked, world);
    for (size_t i = 0; i < std::min(n, which.size()); ++i) out[which[i]] = {0, true};
    for (size_t i = 0; i < asked.size(); ++i) {
      Likelihood& of = out[which[asked[i].row]];
      of.log += found[i].first;
      of.greedy = of.greedy && found[i].second;
    }
    on_rows(static_cast<int64_t>(std::min(n, which.size())));
  }
}

}  // namespace

int64_t row_length(int64_t tokens, int64_t context, int64_t shortest) {
  const int64_t power = std::bit_ceil(static_cast<uint64_t>(tokens));
  return std::clamp(power, std::min(shortest, context), context);
}

Continuation encode_continuation(const data::Tokenizer& tokenizer, const SpecialTokenRules& rules,
                                 std::string_view context, std::string_view text) {
  // Tokenizers join a space with the text after it, so white space at the end of the context is
  // encoded as part of the continuation.
  const size_t end = context.find_last_not_of(" \t\r\n");
  const size_t kept = end == context.npos ? 0 : end + 1;
  const std::string_view before = context.substr(0, kept);
  Continuation c;
  c.context = encode_text(rules, tokenizer, before);
  if (rules.has_encoder) {
    if (context.empty()) c.context.clear();
    c.tokens = tokenizer.encode(std::string(context.substr(kept)) + std::string(text));
  } else {
    const std::string whole = std::string(context) + std::string(text);
    const std::vector<int32_t> ids = encode_text(rules, tokenizer, whole);
    // Usually the tokens of the context are a prefix of those of the whole text. The rest is
    // scored.
    const size_t cut = std::min(c.context.size(), ids.size());
    c.tokens.assign(ids.begin() + cut, ids.end());
  }
  if (c.tokens.empty())
    throw Error(
        "nothing to predict: '{}' adds no token to the text before it. Expected a response of at "
        "least one token.",
        text);
  if (!c.context.empty()) return c;
  if (!rules.alone)
    throw Error(
        "the context is empty, and the tokenizer has no end-of-text token to use in its place. "
        "Give a context, or use another tokenizer.");
  c.context = {*rules.alone};
  return c;
}

int64_t likelihood_bytes(const model::ModelConfig& model, const ModelOptions& options) {
  const int64_t tokens = row_length(model.context, model.context);
  const RowShape longest{tokens, model.encoder_layers > 0 ? tokens : 0};
  return logits_bytes(model, longest.together(), tokens, options, longest.source);
}

std::vector<std::vector<Likelihood>> likelihoods(checkpoint::CheckpointReader& checkpoint,
                                                 const AdapterList& adapters,
                                                 std::span<const Continuation> all,
                                                 const ModelOptions& options) {
  const model::ModelConfig model = model_of(checkpoint);
  std::vector<Row> rows;
  std::vector<RowShape> shapes;
  for (const Continuation& c : all) {
    rows.push_back(model.encoder_layers > 0 ? row_beside_encoder(c, model.context)
                                            : row_of(c, model.context));
    shapes.push_back(shape_of(rows.back(), model.context));
  }
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Longest first: a shape that does not fit in memory fails at once.
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return shapes[a] > shapes[b]; });
  std::vector<std::vector<Likelihood>> out(adapters.size(), std::vector<Likelihood>(rows.size()));
  const std::function<void(int64_t)> on_rows =
      counter(options.on_progress, std::ssize(adapters) * std::ssize(rows));
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    const RowShape& shape = shapes[order[first]];
    while (end < order.size() && shapes[order[end]] == shape) ++end;
    AdaptedModel<LogitsModel> adapted;
    for (size_t a = 0; a < adapters.size(); ++a) {
      LogitsModel& logits = adapted.with(checkpoint, adapters[a], [&] {
        return std::make_unique<LogitsModel>(checkpoint, shape.together(), shape.tokens, options,
                                             shape.source);
      });
      compute(logits, rows, shape, std::span(order).subspan(first, end - first), options.world,
              on_rows, out[a]);
    }
  }
  return out;
}

}  // namespace tessera::eval
