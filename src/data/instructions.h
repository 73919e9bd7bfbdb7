// Instruction data: JSON lines of prompts and responses, which are packed into rows. Only responses
// have a loss.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches.h"
#include "data/chat_encoder.h"
#include "data/instruction_counts.h"
#include "data/instruction_template.h"

namespace tessera::data {

// ---- Packing of whole items of different lengths into rows of one length.

// Places the items in a random order that `key` determines, each into the fullest row that has room
// for it, or else into a new one (best fit: Johnson 1974; at most 1.7 times as many rows as needed,
// and a few percent more for items much shorter than a row). No item is truncated, omitted or
// repeated.
class RowPacking {
 public:
  // CHECKs that 0 < lengths ≤ row.
  RowPacking(std::span<const int32_t> lengths, int64_t row, uint64_t key);

  int64_t rows() const { return std::ssize(starts_) - 1; }
  // Returns the items of a row, in the order in which they were placed.
  std::span<const int32_t> row(int64_t i) const;

 private:
  std::vector<int32_t> things_;  // items, row by row
  std::vector<int64_t> starts_;  // index in things_ at which each row starts, and the end
};

class Tokenizer;

enum class LongExamples : uint8_t { kError, kSkip, kTruncate };
constexpr const char* enum_names(LongExamples) { return "error|skip|truncate"; }

struct InstructionSpec {
  std::vector<std::string> files;  // JSON lines or lists, also compressed; folders of them
  std::string form;                // text of an InstructionTemplate; empty: chat data
  ChatSpec chat;                   // for chat data
  int64_t sequence_length = 0;     // T
  // If above 0, examples are pairs for an encoder–decoder model: this is the length of the
  // decoder's rows, and sequence_length is the length of the encoder's rows.
  int64_t target_length = 0;
  uint64_t seed = 0;
  LongExamples long_examples = LongExamples::kError;  // handling of more than T + 1 tokens
  // Positions start at 0 in each example, and examples of a row do not attend to each other.
  bool intra_document_masking = true;
};

// Chat data have one of the forms of conversation.h, and a chat template (chat_encoder.h). The rest
// of this comment is about data with an InstructionTemplate.
//
// A line is an object that has either a string for each name of the template, including {response},
// or "messages": a list of {"role", "content"} in which user and assistant alternate, ending with
// the assistant. A system message may come first, or be the text under "system"; it is prepended to
// the first prompt, followed by an empty line. For messages, {prompt} is the template's only other
// name, and the template is applied to each pair of user and assistant. The prompt and the response
// are encoded separately, so no token crosses the position where the loss begins.
//
// The tokens with a loss are the response, the template's ending (its literal text
// after {response}, up to the next name), and the end-of-text token. If the ending contains a
// special token such as <|im_end|>, that token ends a turn, and the end-of-text token appears once,
// after the template of the last turn. Otherwise the end-of-text token follows the template of
// every turn. An ending that is itself the name of the end-of-text token is not encoded a second
// time.
//
// For an encoder–decoder model, each pair is a separate row. The text before the response is the
// encoder input, followed by the tokenizer's end token for it. The response with its ending and an
// end-of-text token is the labels, which the decoder reads shifted by one, after token 0 (T5's
// padding). The text after the ending is not used.
class InstructionData {
 public:
  // Reads, encodes and packs all examples. Throws Error with file and line if a line is not JSON,
  // lacks a key, has a value of another type or messages in another order, or is too long and
  // long_examples is `refuse`. Throws Error if there is no example, or if the tokenizer has no
  // end-of-text token.
  InstructionData(InstructionSpec spec, const Tokenizer& tokenizer);

  int64_t examples() const { return std::ssize(starts_) - 1; }
  int64_t rows() const { return packing_->rows(); }  // rows per epoch
  int64_t tokens() const { return std::ssize(ids_); }
  int64_t response_tokens() const;  // tokens with a loss
  int64_t response_bytes(
      const Tokenizer& tokenizer) const;  // bytes of their text, without special tokens
  InstructionCounts counts() const;

  // The ids that end generation: the special tokens that end turns, if the template has some, and
  // the end-of-text token.
  const std::vector<int32_t>& stops() const { return stops_; }
  // The chat template of conversations; nullptr: none.
  const ChatTemplate* chat_template() const { return spec_.chat.form.get(); }
  // Returns the file and line of an example, as "FILE:LINE".
  std::string place(int64_t example) const;

  // Reads the row of a sample, which is in epoch sample / rows(). Each epoch has all rows once, in
  // its own order. A row consists of whole examples; an example of n tokens occupies n − 1
  // positions, since its last token is only a label.
  void read_row(int64_t sample, const SampleRow& row) const;
  std::span<const int32_t> row_examples(int64_t sample) const;
  // Reads row i < rows() in the order of packing, for validation.
  void read_packed_row(int64_t i, const SampleRow& row) const;

  std::span<const int32_t> ids(int64_t example) const;
  std::span<const char> learned(int64_t example) const;  // 1: the token has a loss

 private:
  struct Line {
    int64_t file = 0, number = 0;
  };
  void read_chat(ExampleStream& stream, const Tokenizer& tokenizer);
  void add_line(const JsonExample& line, const Tokenizer& tokenizer);
  void end_example(Line line, const std::string& place);
  void end_pair(size_t response, Line line, const std::string& place);
  void read_pair(int64_t example, const SampleRow& row) const;
  void read_examples(std::span<const int32_t> examples, const SampleRow& row) const;

  InstructionSpec spec_;
  std::optional<InstructionTemplate> form_;  // nothing: chat data
  std::vector<int32_t> ids_;                 // tokens of all examples
  std::vector<char> learned_;
  std::vector<int64_t> starts_{0};
  TurnEnding ending_;  // without chat data
  std::vector<int32_t> stops_;
  std::vector<std::string> file_names_;
  std::vector<Line> lines_;   // line of each example
  InstructionCounts counts_;  // only the truncated and skipped examples
  std::unique_ptr<RowPacking> packing_;
};

}  // namespace tessera::data
