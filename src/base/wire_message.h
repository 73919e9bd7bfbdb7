// The parts of protobuf's wire format that are needed to read and write messages field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A field has a field number, a kind, and a number or bytes as its value.
struct WireField {
  enum class Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Kind kind = Kind::kVarint;
  uint64_t value = 0;      // if the kind is a varint or a fixed-size number
  std::string_view bytes;  // if the kind is kBytes
  size_t at = 0;           // offset of the field in the file
};

// Returns whether a file begins with a field 1 that contains bytes, as a SentencePiece model does
// (its first piece). Other programs have files with the same names.
inline bool begins_with_field_1(std::string_view file) { return file.starts_with('\x0a'); }

class WireReader {
 public:
  // `at` is the offset of `message` in the file. All returned views refer to `message`.
  WireReader(std::string_view message, const std::string& source, size_t at = 0)
      : message_(message), source_(source), base_(at) {}

  // Reads the next field; returns false at the end. Throws Error with the byte offset if there is
  // no valid field or if it is longer than the rest of the message.
  bool next(WireField& out);
  // Returns a reader of the message that the field contains.
  WireReader inside(const WireField& field) const;

  [[noreturn]] void refuse(size_t at, const std::string& why) const;

 private:
  uint64_t varint();
  uint64_t fixed(size_t bytes);

  std::string_view message_;
  const std::string& source_;
  size_t base_ = 0, next_ = 0;
};

// Appends a field.
void append_wire_bytes(std::string& out, uint32_t number, std::string_view bytes);
void append_wire_float(std::string& out, uint32_t number, float value);
void append_wire_double(std::string& out, uint32_t number, double value);
void append_wire_varint(std::string& out, uint32_t number, uint64_t value);

}  // namespace tessera
