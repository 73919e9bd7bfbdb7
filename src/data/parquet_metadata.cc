// Parses FileMetaData and PageHeader of
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
// Numbers below are the identifiers of fields and the values of enumerations in that file.
#include "data/parquet_metadata.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "data/thrift_compact.h"

namespace tessera::data {
namespace {

using Field = ThriftReader::Field;

constexpr int kDeepest = 32;
constexpr int64_t kLargestPage = int64_t{1} << 30;

// ConvertedType and LogicalType of what is read.
constexpr int64_t kUtf8 = 0, kMap = 1, kMapKeyValue = 2, kList = 3, kEnum = 4, kUint8 = 11,
                  kUint64 = 14, kInt64 = 18, kJson = 19;
constexpr int64_t kLogicalString = 1, kLogicalMap = 2, kLogicalList = 3, kLogicalEnum = 4,
                  kLogicalInteger = 10, kLogicalJson = 12;

// The largest number of elements in a schema.
constexpr int64_t kMostElements = 1 << 16;

// A schema element. The file has a flat list of them, from which the schema tree is built.
struct Element {
  std::optional<int64_t> type, converted;
  int64_t repetition = 0, children = 0, logical = 0;
  bool is_unsigned = false;  // from the logical type
  std::string name;
};

// Reads a LogicalType, a union: the identifier of the member that is set, and of an integer whether
// it has a sign.
void read_logical_type(ThriftReader& in, Element& e) {
  in.read_struct([&](const Field& member) {
    e.logical = member.id;
    if (member.id != kLogicalInteger) return false;
    in.read_struct([&](const Field& f) {
      if (f.id != 2) return false;
      e.is_unsigned = !in.read_bool(f);
      return true;
    });
    return true;
  });
}

Element read_element(ThriftReader& in) {
  Element e;
  in.read_struct([&](const Field& f) {
    switch (f.id) {
      case 1:
        e.type = in.read_integer(f);
        return true;
      case 3:
        e.repetition = in.read_integer(f);
        return true;
      case 4:
        e.name = in.read_binary();
        return true;
      case 5:
        e.children = in.read_integer(f);
        return true;
      case 6:
        e.converted = in.read_integer(f);
        return true;
      case 10:
        read_logical_type(in, e);
        return true;
      default:
        return false;
    }
  });
  return e;
}

ColumnKind kind_of(const Element& e) {
  const int64_t c = e.converted.value_or(-1);
  const bool plain = c == -1 && e.logical == 0;
  const bool integer = (c >= kUint8 && c <= kInt64) || e.logical == kLogicalInteger;
  const bool text = c == kUtf8 || c == kEnum || c == kJson || e.logical == kLogicalString ||
                    e.logical == kLogicalEnum || e.logical == kLogicalJson;
  switch (static_cast<ParquetType>(e.type.value_or(-1))) {
    case ParquetType::kBoolean:
      return plain ? ColumnKind::kBoolean : ColumnKind::kOther;
    case ParquetType::kInt32:
    case ParquetType::kInt64:
      return plain || integer ? ColumnKind::kInteger : ColumnKind::kOther;
    case ParquetType::kFloat:
    case ParquetType::kDouble:
      return plain ? ColumnKind::kReal : ColumnKind::kOther;
    case ParquetType::kByteArray:
      return plain || text ? ColumnKind::kText : ColumnKind::kOther;
    default:
      return ColumnKind::kOther;
  }
}

class SchemaBuilder {
 public:
  explicit SchemaBuilder(const std::vector<Element>& elements) : elements_(elements) {}

  ParquetNode build() {
    ParquetNode root = node(0, 0, 0);
    if (at_ != elements_.size()) throw Error("the schema has elements that belong to no group");
    return root;
  }

 private:
  ParquetNode node(int depth, int definition, int repeated) {
    if (depth > kDeepest) throw Error("the schema is more than {} levels deep", kDeepest);
    if (at_ >= elements_.size()) throw Error("the schema ends too early");
    const Element& e = elements_[at_++];
    ParquetNode n;
    n.name = e.name;
    if (e.repetition < 0 || e.repetition > 2)
      throw Error("the schema has an unknown repetition {}", e.repetition);
    // The root has no repetition.
    n.repetition = depth == 0 ? Repetition::kRequired : static_cast<Repetition>(e.repetition);
    n.definition = definition + (n.repetition == Repetition::kRequired ? 0 : 1);
    n.repeated = repeated + (n.repetition == Repetition::kRepeated ? 1 : 0);
    n.first_column = columns_;
    const int64_t converted = e.converted.value_or(-1);
    n.is_list = converted == kList || e.logical == kLogicalList;
    n.is_map = converted == kMap || converted == kMapKeyValue || e.logical == kLogicalMap;
    if (e.type) {
      if (e.children != 0) throw Error("column '{}' has children", e.name);
      n.type = static_cast<ParquetType>(*e.type);
      n.kind = kind_of(e);
      n.is_unsigned = e.is_unsigned || (converted >= kUint8 && converted <= kUint64);
      ++columns_;
      return n;
    }
    if (e.children < 1 || e.children > std::ssize(elements_))
      throw Error("group '{}' of the schema has {} children, expected 1 to {}", e.name, e.children,
                  elements_.size());
    for (int64_t i = 0; i < e.children; ++i)
      n.children.push_back(node(depth + 1, n.definition, n.repeated));
    n.columns = columns_ - n.first_column;
    return n;
  }

  const std::vector<Element>& elements_;
  size_t at_ = 0;
  int columns_ = 0;
};

ColumnChunk read_chunk_metadata(ThriftReader& in, int64_t data_end) {
  ColumnChunk c;
  int64_t data_page = 0, dictionary = 0, bytes = 0;
  in.read_struct([&](const Field& f) {
    switch (f.id) {
      case 1:
        c.type = static_cast<ParquetType>(in.read_integer(f));
        return true;
      case 4:
        c.codec = static_cast<ParquetCodec>(in.read_integer(f));
        return true;
      case 5:
        c.values = in.read_integer(f);
        return true;
      case 7:
        bytes = in.read_integer(f);
        return true;
      case 9:
        data_page = in.read_integer(f);
        return true;
      case 11:
        dictionary = in.read_integer(f);
        return true;
      default:
        return false;
    }
  });
  c.begin = dictionary > 0 ? std::min(dictionary, data_page) : data_page;
  if (c.values < 0 || bytes < 0 || c.begin < 0 || c.begin > data_end || bytes > data_end - c.begin)
    throw Error("a column has {} values in {} bytes from byte {} on, but the pages end at byte {}",
                c.values, bytes, c.begin, data_end);
  c.end = c.begin + bytes;
  return c;
}

ColumnChunk read_chunk(ThriftReader& in, int64_t data_end) {
  std::optional<ColumnChunk> chunk;
  in.read_struct([&](const Field& f) {
    if (f.id == 1) throw Error("a column is in another file, which is not supported");
    if (f.id == 8 || f.id == 9) throw Error("a column is encrypted, which is not supported");
    if (f.id != 3) return false;
    chunk = read_chunk_metadata(in, data_end);
    return true;
  });
  if (!chunk) throw Error("a column has no metadata");
  return *chunk;
}

RowGroup read_group(ThriftReader& in, int64_t data_end) {
  RowGroup g;
  in.read_struct([&](const Field& f) {
    if (f.id == 3) {
      g.rows = in.read_integer(f);
      return true;
    }
    if (f.id != 1) return false;
    const int64_t columns = in.read_list().size;
    for (int64_t i = 0; i < columns; ++i) g.columns.push_back(read_chunk(in, data_end));
    return true;
  });
  if (g.rows < 0) throw Error("a row group has {} rows", g.rows);
  // Without this, a footer of zero bytes is a list of empty groups, each of which takes memory.
  if (g.columns.empty()) throw Error("a row group has no columns");
  return g;
}

void list_columns(const ParquetNode& n, std::vector<const ParquetNode*>& out) {
  if (n.children.empty()) out.push_back(&n);
  for (const ParquetNode& child : n.children) list_columns(child, out);
}

void check_groups(const ParquetMetadata& m) {
  for (const RowGroup& g : m.groups) {
    if (g.columns.size() != m.columns.size())
      throw Error("a row group has {} columns, expected {}", g.columns.size(), m.columns.size());
    for (size_t i = 0; i < g.columns.size(); ++i)
      if (g.columns[i].type != m.columns[i]->type)
        throw Error("column '{}' has Parquet type {} in a row group, but {} in the schema",
                    m.columns[i]->name, static_cast<int>(g.columns[i].type),
                    static_cast<int>(m.columns[i]->type));
  }
}

}  // namespace

void read_metadata(std::string_view footer, int64_t data_end, ParquetMetadata& out) {
  ThriftReader in(footer);
  std::vector<Element> elements;
  in.read_struct([&](const Field& f) {
    switch (f.id) {
      case 2: {
        const int64_t count = in.read_list().size;
        if (count > kMostElements)
          throw Error("the schema has {} elements, expected at most {}", count, kMostElements);
        for (int64_t i = 0; i < count; ++i) elements.push_back(read_element(in));
        return true;
      }
      case 3:
        out.rows = in.read_integer(f);
        return true;
      case 4: {
        const int64_t count = in.read_list().size;
        for (int64_t i = 0; i < count; ++i) out.groups.push_back(read_group(in, data_end));
        return true;
      }
      case 8:
        throw Error("the file is encrypted, which is not supported");
      default:
        return false;
    }
  });
  out.root = SchemaBuilder(elements).build();
  if (out.root.children.empty()) throw Error("the schema has no columns");
  list_columns(out.root, out.columns);
  check_groups(out);
}

std::string name_of(ParquetEncoding encoding) {
  switch (encoding) {
    case ParquetEncoding::kPlain:
      return "PLAIN";
    case ParquetEncoding::kPlainDictionary:
      return "PLAIN_DICTIONARY";
    case ParquetEncoding::kRle:
      return "RLE";
    case ParquetEncoding::kBitPacked:
      return "BIT_PACKED";
    case ParquetEncoding::kDeltaBinaryPacked:
      return "DELTA_BINARY_PACKED";
    case ParquetEncoding::kDeltaLengthByteArray:
      return "DELTA_LENGTH_BYTE_ARRAY";
    case ParquetEncoding::kDeltaByteArray:
      return "DELTA_BYTE_ARRAY";
    case ParquetEncoding::kRleDictionary:
      return "RLE_DICTIONARY";
    case ParquetEncoding::kByteStreamSplit:
      return "BYTE_STREAM_SPLIT";
  }
  return fmt::format("encoding {}", static_cast<int>(encoding));
}

namespace {

ParquetEncoding encoding_of(ThriftReader& in, const Field& f) {
  return static_cast<ParquetEncoding>(in.read_integer(f));
}

void read_data_header(ThriftReader& in, PageHeader& h) {
  in.read_struct([&](const Field& f) {
    if (f.id == 1) h.values = in.read_integer(f);
    if (f.id == 2) h.encoding = encoding_of(in, f);
    if (f.id == 3) h.definition_encoding = encoding_of(in, f);
    if (f.id == 4) h.repetition_encoding = encoding_of(in, f);
    return f.id >= 1 && f.id <= 4;
  });
}

// A dictionary is always plain.
void read_dictionary_header(ThriftReader& in, PageHeader& h) {
  in.read_struct([&](const Field& f) {
    if (f.id == 1) h.values = in.read_integer(f);
    return f.id == 1;
  });
}

void read_data_header_2(ThriftReader& in, PageHeader& h) {
  in.read_struct([&](const Field& f) {
    if (f.id == 1) h.values = in.read_integer(f);
    if (f.id == 4) h.encoding = encoding_of(in, f);
    if (f.id == 5) h.definition_bytes = in.read_integer(f);
    if (f.id == 6) h.repetition_bytes = in.read_integer(f);
    if (f.id == 7) h.compressed = ThriftReader::read_bool(f);
    return f.id == 1 || (f.id >= 4 && f.id <= 7);
  });
}

}  // namespace

PageHeader read_page_header(std::string_view bytes) {
  ThriftReader in(bytes);
  PageHeader h;
  in.read_struct([&](const Field& f) {
    switch (f.id) {
      case 1:
        h.type = static_cast<PageType>(in.read_integer(f));
        return true;
      case 2:
        h.bytes = in.read_integer(f);
        return true;
      case 3:
        h.stored_bytes = in.read_integer(f);
        return true;
      case 5:
        read_data_header(in, h);
        return true;
      case 7:
        read_dictionary_header(in, h);
        return true;
      case 8:
        read_data_header_2(in, h);
        return true;
      default:
        return false;
    }
  });
  h.header_bytes = in.position();
  const int64_t levels = h.definition_bytes + h.repetition_bytes;
  if (h.bytes < 0 || h.bytes > kLargestPage || h.stored_bytes < 0 ||
      h.stored_bytes > kLargestPage || h.values < 0 || h.values > INT32_MAX)
    throw Error("a page has {} values in {} bytes ({} in the file), expected at most 1 GiB",
                h.values, h.bytes, h.stored_bytes);
  if (h.definition_bytes < 0 || h.repetition_bytes < 0 || h.definition_bytes > kLargestPage ||
      h.repetition_bytes > kLargestPage || levels > h.bytes || levels > h.stored_bytes)
    throw Error("the levels of a page have {} and {} bytes, but the page has {}",
                h.definition_bytes, h.repetition_bytes, h.stored_bytes);
  return h;
}

}  // namespace tessera::data
