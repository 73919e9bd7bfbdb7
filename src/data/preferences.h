// Preference data: pairs of answers to one prompt, or answers that are marked desirable or not.
// Each row has the two texts of a pair as two documents.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/chat_encoder.h"
#include "data/instructions.h"

namespace tessera::data {

enum class PreferenceUse : uint8_t {
  kPairs,     // the tokens of both answers have a loss
  kScores,    // only the last token of each text has one: a reward model
  kExamples,  // single answers; the second text has the same prompt and the answer to another one,
              // for the estimate of the KL divergence (KTO)
};

// Columns of SampleRow::references.
constexpr int64_t kPreferenceFigures = 3;

// A line has "chosen" and "rejected", both texts or both lists of messages, and "prompt",
// "question" or "instruction" (conversation.h). Without a prompt, or if conversations repeat it,
// what both begin with is the prompt; texts without a prompt may have no "system" or "input".
// "margin" is optional. For kExamples a line has "prompt", "completion" and "label" (true:
// desirable), or is a pair, which gives two examples. Texts are encoded as ChatEncoder does it.
class PreferenceData {
 public:
  // Reads and encodes all files of `spec`, whose target_length and form must be empty. Throws
  // Error with file and line as InstructionData does, if a key is missing or has another type, and
  // if kExamples has a single example.
  PreferenceData(InstructionSpec spec, PreferenceUse use, const Tokenizer& tokenizer);

  int64_t pairs() const { return std::ssize(figures_); }  // rows per epoch
  int64_t tokens() const { return std::ssize(ids_); }
  InstructionCounts counts() const;
  const std::vector<int32_t>& stops() const { return stops_; }
  const ChatTemplate* chat_template() const { return spec_.chat.form.get(); }
  const std::vector<std::string>& files() const { return file_names_; }
  // Returns the file and line of a pair, as "FILE:LINE".
  std::string place(int64_t pair) const;
  // Return the index of a pair's file in files(), and its line.
  int64_t file(int64_t pair) const { return lines_[pair].file; }
  int64_t line(int64_t pair) const { return lines_[pair].number; }
  // Returns a hash of all tokens, of the tokens that have a loss, and of the figures.
  uint64_t fingerprint() const;
  // Throws Error with the place of the first id that is not below `vocabulary`.
  void require_vocabulary(int64_t vocabulary) const;

  // Returns the number of tokens with a loss in the first answer of a pair.
  int64_t chosen_tokens(int64_t pair) const;
  // Returns the pair of a sample, which is in epoch sample / pairs(). Each epoch has all pairs
  // once, in its own order.
  int64_t pair_of(int64_t sample) const;
  // Writes the row of a pair, with the log-probabilities that set_references() gave.
  void read_pair(int64_t pair, const SampleRow& row) const;
  // Sets the log-probabilities of all pairs under the reference model, [pairs, 2].
  void set_references(std::vector<double> references);
  // Returns the log-probabilities of a pair under the reference model, [2].
  std::span<const double> references(int64_t pair) const;
  // Returns the margin of a pair, or for kExamples 1 for a desirable answer and 0 for another.
  double figure(int64_t pair) const { return figures_[pair]; }

  std::span<const int32_t> ids(int64_t pair, int64_t answer) const;
  std::span<const char> learned(int64_t pair, int64_t answer) const;

 private:
  struct Line {
    int64_t file = 0, number = 0;
  };
  struct Example;
  std::vector<Example> examples_of(const JsonExample& line, const std::string& place) const;
  std::vector<size_t> with_other_prompts(const std::vector<Example>& examples) const;
  void add_pair(const JsonExample& first, const JsonExample& second, double figure, Line line,
                ChatEncoder& encoder);
  bool cut_pair(size_t start, size_t middle, const std::string& place);
  std::string key(const char* ours) const;
  void read_text(int64_t pair, int64_t answer, size_t& at, const SampleRow& row) const;

  InstructionSpec spec_;
  PreferenceUse use_;
  std::vector<int32_t> ids_;  // tokens of all texts, those of a pair after each other
  std::vector<char> learned_;
  std::vector<int64_t> starts_{0};  // two per pair
  std::vector<double> figures_;     // margin, or 1 for desirable
  std::vector<double> references_;  // [pairs, 2]
  std::vector<int32_t> stops_;
  std::vector<std::string> file_names_;
  std::vector<Line> lines_;
  InstructionCounts counts_;
};

// Fills a micro-batch: row i is pair first + i if that is below `end`. The other rows have no
// answer.
void fill_pair_batch(const PreferenceData& data, int64_t first, int64_t end, const BatchView& out);

}  // namespace tessera::data
