// Reads and writes protobuf's wire format (protobuf.dev/programming-guides/encoding), without a
// schema compiler: a message is a sequence of fields, each a tag (number << 3 | kind), followed by
// a varint, 4 or 8 bytes (little-endian), or a length and that many bytes. Lengths are checked
// against the remaining bytes before they are used.
#include "base/wire_message.h"

#include <bit>

#include "base/error.h"

namespace tessera {
namespace {

// Appends a varint: groups of 7 bits, lowest first; bit 7 of a byte is set if another byte follows.
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

void append_tag(std::string& out, uint32_t number, WireField::Kind kind) {
  append_varint(out, uint64_t{number} << 3 | static_cast<uint64_t>(kind));
}

template <class T>
void append_fixed(std::string& out, T bits) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(bits >> (8 * i));
}

}  // namespace

void WireReader::refuse(size_t at, const std::string& why) const {
  throw Error("{}: byte {}: {}", source_, at, why);
}

// Reads a varint: groups of 7 bits, lowest first; bit 7 of a byte is set if another byte follows.
uint64_t WireReader::varint() {
  const size_t start = next_;
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (next_ == message_.size()) refuse(base_ + start, "the message ends within a number");
    const auto byte = static_cast<uint8_t>(message_[next_++]);
    value |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
  refuse(base_ + start, "a number of more than 64 bits");
}

uint64_t WireReader::fixed(size_t bytes) {
  if (message_.size() - next_ < bytes) refuse(base_ + next_, "the message ends within a number");
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<uint8_t>(message_[next_++])} << (8 * i);
  }
  return value;
}

bool WireReader::next(WireField& out) {
  if (next_ == message_.size()) return false;
  out = {};
  out.at = base_ + next_;
  const uint64_t tag = varint();
  // Field numbers begin at 1 and have at most 29 bits; larger tags mean that this is not a message.
  if (tag >> 3 == 0 || tag >> 32 != 0) refuse(out.at, "found no protobuf field here");
  out.number = static_cast<uint32_t>(tag >> 3);
  out.kind = static_cast<WireField::Kind>(tag & 7);
  switch (out.kind) {
    case WireField::Kind::kVarint:
      out.value = varint();
      return true;
    case WireField::Kind::kFixed64:
      out.value = fixed(8);
      return true;
    case WireField::Kind::kFixed32:
      out.value = fixed(4);
      return true;
    case WireField::Kind::kBytes:
      break;
    default:
      refuse(
          out.at,
          fmt::format(
              "field {} is of the unknown kind {}: the file is damaged, or has data after its end",
              out.number, tag & 7));
  }
  const uint64_t size = varint();
  if (size > message_.size() - next_) {
    refuse(out.at, fmt::format("field {} has {} bytes, but only {} are left: the file is cut off "
                               "or damaged",
                               out.number, size, message_.size() - next_));
  }
  out.bytes = message_.substr(next_, size);
  next_ += size;
  return true;
}

WireReader WireReader::inside(const WireField& field) const {
  // Positions in errors are offsets in the file, also in nested messages.
  const auto offset = static_cast<size_t>(field.bytes.data() - message_.data());
  return WireReader(field.bytes, source_, base_ + offset);
}

void append_wire_bytes(std::string& out, uint32_t number, std::string_view bytes) {
  append_tag(out, number, WireField::Kind::kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_wire_float(std::string& out, uint32_t number, float value) {
  append_tag(out, number, WireField::Kind::kFixed32);
  append_fixed(out, std::bit_cast<uint32_t>(value));
}

void append_wire_double(std::string& out, uint32_t number, double value) {
  append_tag(out, number, WireField::Kind::kFixed64);
  append_fixed(out, std::bit_cast<uint64_t>(value));
}

void append_wire_varint(std::string& out, uint32_t number, uint64_t value) {
  append_tag(out, number, WireField::Kind::kVarint);
  append_varint(out, value);
}

}  // namespace tessera
