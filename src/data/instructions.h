// Instruction data: JSON lines with a question and its answer, packed into rows; only answers
// count.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/instruction_counts.h"
#include "data/instruction_template.h"

namespace tessera::data {

// ---- Whole things of different lengths, in rows of one length.

// Takes the things in a random order that `key` determines, and puts each into the fullest row that
// still has room for it, else into a new one (best fit: Johnson 1974; at most 1.7 times as many
// rows as needed, few per cent more for lengths that are small beside a row). Nothing is cut, left
// out or put in twice.
class RowPacking {
 public:
  // 0 < lengths ≤ row: CHECKed.
  RowPacking(std::span<const int32_t> lengths, int64_t row, uint64_t key);

  int64_t rows() const { return std::ssize(starts_) - 1; }
  // The things of a row, in the order they are put there.
  std::span<const int32_t> row(int64_t i) const;

 private:
  std::vector<int32_t> things_;  // row by row
  std::vector<int64_t> starts_;  // of each row in things_, and the end
};

class Tokenizer;
struct Document;

enum class LongExamples : uint8_t { kError, kSkip, kTruncate };
constexpr const char* enum_names(LongExamples) { return "error|skip|truncate"; }

struct InstructionSpec {
  std::vector<std::string> files;  // JSON lines, also compressed; folders of them
  std::string form;                // an InstructionTemplate
  int64_t sequence_length = 0;     // T
  // Above 0: pairs for an encoder and a decoder of so many tokens. sequence_length is the
  // encoder's.
  int64_t target_length = 0;
  uint64_t seed = 0;
  LongExamples long_examples = LongExamples::kError;  // of more than T + 1 tokens
  // Positions start at 0 in each example, and examples of a row do not attend to each other.
  bool intra_document_masking = true;
};

// A line is an object that has either a string for each name of the template, {response} among
// them, or "messages": a list of {"role", "content"} with user and assistant in turn, the last an
// assistant's; a system message may come first and stands before the first prompt, an empty line
// between. Of messages the template's name is {prompt}, and it is applied to each pair in turn.
// The prompt and the response are encoded separately, so no token crosses where the loss begins.
//
// Tokens with a loss: those of the response, those of the template's ending (its own text after
// {response}, up to the next name), and the end-of-text token. If the ending holds a special token
// such as <|im_end|>, that token ends a turn, and the end-of-text token appears once, after the
// template of the last turn. Without one the end-of-text token follows the template of every turn.
// An ending that is itself the end-of-text token's name is not encoded a second time.
//
// For an encoder and a decoder each pair is a row of its own: what stands before the response is
// the source, with the end that the tokenizer gives sources; the response with its ending and an
// end-of-text token is the labels, and the decoder reads them shifted by one, after token 0, T5's
// padding. The text after the ending is not used.
class InstructionData {
 public:
  // Reads, encodes and packs all. Throws Error, naming file and line, for what is no JSON, lacks a
  // key, has another kind of value or messages in another order, or is too long where that is to
  // be refused; without any example; and for a tokenizer without an end-of-text token.
  InstructionData(InstructionSpec spec, const Tokenizer& tokenizer);

  int64_t examples() const { return std::ssize(starts_) - 1; }
  int64_t rows() const { return packing_->rows(); }  // an epoch
  int64_t tokens() const { return std::ssize(ids_); }
  int64_t response_tokens() const;  // that are learned
  int64_t response_bytes(
      const Tokenizer& tokenizer) const;  // of their text, without special tokens
  InstructionCounts counts() const;

  // The ids that end what the model writes: the special token that ends a turn, if the template has
  // one, and the end-of-text token.
  const std::vector<int32_t>& stops() const { return stops_; }
  // The file and line of an example, as "FILE:LINE".
  std::string place(int64_t example) const;

  // Row of sample n: epoch n / rows(), in each epoch all rows once in another order. Whole examples
  // in a row; the n tokens of one take n − 1 places, since its last is only a label.
  void read_row(int64_t sample, const SampleRow& row) const;
  std::span<const int32_t> row_examples(int64_t sample) const;
  // Row i < rows() as it was packed, whatever the epoch: for validation.
  void read_packed_row(int64_t i, const SampleRow& row) const;

  std::span<const int32_t> ids(int64_t example) const;
  std::span<const char> learned(int64_t example) const;  // 1: the loss counts that token

 private:
  struct Line {
    int64_t file = 0, number = 0;
  };
  void find_ending(const Tokenizer& tokenizer);
  void add_line(const Document& line, const Tokenizer& tokenizer);
  void end_example(Line line, const std::string& place);
  void end_pair(size_t response, Line line, const std::string& place);
  void read_pair(int64_t example, const SampleRow& row) const;
  void read_examples(std::span<const int32_t> examples, const SampleRow& row) const;

  InstructionSpec spec_;
  InstructionTemplate form_;
  std::vector<int32_t> ids_;  // of all examples
  std::vector<char> learned_;
  std::vector<int64_t> starts_{0};
  std::string ending_;  // of every turn, without the end-of-text token's name
  std::vector<int32_t> stops_;
  std::vector<std::string> file_names_;
  std::vector<Line> lines_;   // of each example
  InstructionCounts counts_;  // only what was cut and skipped
  std::unique_ptr<RowPacking> packing_;
};

}  // namespace tessera::data
