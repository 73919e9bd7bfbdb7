// Protobuf's wire format, as far as reading a message field by field needs it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A field is a number, a kind, and a number or bytes.
struct WireField {
  enum class Kind : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Kind kind = Kind::kVarint;
  uint64_t value = 0;      // of a varint or a fixed number
  std::string_view bytes;  // of kBytes
  size_t at = 0;           // where the field begins, in the file
};

// Whether a file begins with field 1, which has bytes: as a SentencePiece model does with its first
// piece. Others have files of the same names.
inline bool begins_with_field_1(std::string_view file) { return file.starts_with('\x0a'); }

class WireReader {
 public:
  // `at`: where `message` begins in the file. All views stay those of `message`.
  WireReader(std::string_view message, const std::string& source, size_t at = 0)
      : message_(message), source_(source), base_(at) {}

  // Throws Error with the byte for what is no field or is longer than what is left.
  bool next(WireField& out);
  // A message within a message.
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
