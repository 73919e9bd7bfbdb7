// Thrift's compact protocol: integers are zigzag varints, and the identifier of a field is the
// difference to the one before it.
#include "data/thrift_compact.h"

namespace tessera::data {
namespace {

constexpr const char* kEnds = "the metadata ends too early";

}  // namespace

uint8_t ThriftReader::byte() {
  if (at_ >= bytes_.size()) throw Error("{}", kEnds);
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t b = byte();
    value |= static_cast<uint64_t>(b & 0x7F) << shift;
    if ((b & 0x80) == 0) return value;
  }
  throw Error("an integer of the metadata has more than 64 bits");
}

int64_t ThriftReader::zigzag() {
  const uint64_t n = varint();
  return static_cast<int64_t>((n >> 1) ^ (~(n & 1) + 1));
}

bool ThriftReader::next_field(Field& f, int16_t& id) {
  const uint8_t head = byte();
  f.type = static_cast<Type>(head & 0x0F);
  if (f.type == Type::kStop) return false;
  if (f.type > Type::kStruct) throw Error("the metadata has a field of unknown type {}", head & 15);
  const int64_t next = (head >> 4) != 0 ? id + (head >> 4) : zigzag();
  if (next < INT16_MIN || next > INT16_MAX)
    throw Error("the metadata has a field number {}, expected {} to {}", next, INT16_MIN,
                INT16_MAX);
  f.id = id = static_cast<int16_t>(next);
  return true;
}

ThriftReader::List ThriftReader::read_list() {
  const uint8_t head = byte();
  List list;
  list.type = static_cast<Type>(head & 0x0F);
  list.size = head >> 4;
  const uint64_t size = list.size == 15 ? varint() : static_cast<uint64_t>(list.size);
  if (list.type == Type::kStop || list.type > Type::kStruct || size > bytes_.size() - at_)
    throw Error("the metadata has a list of {} elements in {} bytes", size, bytes_.size() - at_);
  list.size = static_cast<int64_t>(size);
  return list;
}

int64_t ThriftReader::read_integer(const Field& f) {
  if (f.type == Type::kByte) return static_cast<int8_t>(byte());
  if (f.type != Type::kI16 && f.type != Type::kI32 && f.type != Type::kI64)
    throw Error("field {} of the metadata is not an integer", f.id);
  return zigzag();
}

std::string_view ThriftReader::read_binary() {
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) throw Error("{}", kEnds);
  const std::string_view out = bytes_.substr(at_, size);
  at_ += size;
  return out;
}

void ThriftReader::skip(Type type) {
  const Depth depth(*this);
  const auto elements = [&](Type of, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      // A boolean in a list is a byte of its own.
      if (of == Type::kTrue || of == Type::kFalse)
        byte();
      else
        skip(of);
  };
  switch (type) {
    case Type::kStop:
      throw Error("the metadata has a value without a type");
    case Type::kTrue:
    case Type::kFalse:
      return;
    case Type::kByte:
      byte();
      return;
    case Type::kI16:
    case Type::kI32:
    case Type::kI64:
      varint();
      return;
    case Type::kDouble:
      for (int i = 0; i < 8; ++i) byte();
      return;
    case Type::kBinary:
      read_binary();
      return;
    case Type::kList:
    case Type::kSet: {
      const List list = read_list();
      return elements(list.type, list.size);
    }
    case Type::kMap: {
      const uint64_t size = varint();
      if (size == 0) return;
      if (size > bytes_.size() - at_) throw Error("{}", kEnds);
      const uint8_t types = byte();
      for (uint64_t i = 0; i < size; ++i) {
        elements(static_cast<Type>(types >> 4), 1);
        elements(static_cast<Type>(types & 15), 1);
      }
      return;
    }
    case Type::kStruct:
      return read_struct([](const Field&) { return false; });
  }
  throw Error("the metadata has a value of unknown type {}", static_cast<int>(type));
}

}  // namespace tessera::data
