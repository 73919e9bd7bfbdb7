// Reads structs of Thrift's compact protocol, in which Parquet writes its metadata.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace tessera::data {

// A position in bytes of the compact protocol. All members throw Error if the bytes end too early
// or have no valid form.
class ThriftReader {
 public:
  enum class Type : uint8_t {
    kStop = 0,
    kTrue = 1,
    kFalse = 2,
    kByte = 3,
    kI16 = 4,
    kI32 = 5,
    kI64 = 6,
    kDouble = 7,
    kBinary = 8,
    kList = 9,
    kSet = 10,
    kMap = 11,
    kStruct = 12
  };
  struct Field {
    Type type = Type::kStop;
    int16_t id = 0;
  };
  struct List {
    Type type = Type::kStop;
    int64_t size = 0;
  };

  explicit ThriftReader(std::string_view bytes) : bytes_(bytes) {}

  size_t position() const { return at_; }

  // Calls each(field) for every field of a struct. `each` reads the field's value, or returns false
  // to skip it.
  template <class Each>
  void read_struct(const Each& each) {
    const Depth depth(*this);
    int16_t id = 0;
    for (Field f; next_field(f, id);)
      if (!each(f)) skip(f.type);
  }
  // Reads the head of a list. Each element has at least one byte, so the size is bounded by what
  // is left.
  List read_list();
  // Reads the value of an integer field.
  int64_t read_integer(const Field& f);
  // Reads a boolean, whose value is the type of its field.
  static bool read_bool(const Field& f) { return f.type == Type::kTrue; }
  std::string_view read_binary();
  void skip(Type type);

 private:
  // Counts nested values, whose number is bounded so that no input exhausts the stack.
  class Depth {
   public:
    explicit Depth(ThriftReader& of) : of_(of) {
      if (++of_.depth_ > kMostDepth) throw Error("values are nested in more than 64 others");
    }
    ~Depth() { --of_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    static constexpr int kMostDepth = 64;
    ThriftReader& of_;
  };

  bool next_field(Field& f, int16_t& id);
  uint8_t byte();
  uint64_t varint();
  int64_t zigzag();

  std::string_view bytes_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tessera::data
