// Assembles rows from columns, each of which has its values with their levels (Melnik et al. 2010):
// the first column below a node decides whether the node is null, and where a list ends; all
// columns below it must agree.
#include "data/parquet_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/text_buffer.h"

namespace tessera::data {
namespace {

constexpr std::string_view kMagic = "PAR1", kEncryptedMagic = "PARE";
constexpr int64_t kTail = 8;  // length of the footer, magic
constexpr int64_t kLargestFooter = int64_t{256} << 20;
constexpr int64_t kMostValues = int64_t{1} << 20;         // per row
constexpr int64_t kMostBytes = TextBuffer::kLongestLine;  // per row

std::string type_name(const ParquetNode& n) {
  if (n.is_map) return "a map";
  if (!n.children.empty()) return n.is_list ? "a list of unsupported values" : "a struct";
  switch (n.type) {
    case ParquetType::kInt96:
      return "INT96";
    case ParquetType::kFixedByteArray:
      return "FIXED_LEN_BYTE_ARRAY";
    default:
      return "a date, time, decimal or other logical type";
  }
}

// Returns the first node below `n` that is not supported, or null.
const ParquetNode* unsupported(const ParquetNode& n) {
  if (n.is_map) return &n;
  if (n.children.empty()) return n.kind == ColumnKind::kOther ? &n : nullptr;
  for (const ParquetNode& child : n.children)
    if (const ParquetNode* bad = unsupported(child)) return bad;
  return nullptr;
}

}  // namespace

bool named_parquet(std::string_view name) { return name.ends_with(".parquet"); }

// Reads the rows of one row group.
class ParquetFile::RowReader {
 public:
  RowReader(const DataFile& file, const ParquetMetadata& metadata, const RowGroup& group,
            const std::vector<const ParquetNode*>& fields)
      : fields_(fields), columns_(metadata.columns.size()) {
    for (const ParquetNode* field : fields)
      for (int c = field->first_column; c < field->first_column + field->columns; ++c)
        columns_[c] = std::make_unique<ParquetColumn>(file, *metadata.columns[c], group.columns[c]);
  }

  Tree row() {
    values_ = bytes_ = 0;
    Tree out = Tree::object();
    for (const ParquetNode* field : fields_) {
      for (int c = field->first_column; c < field->first_column + field->columns; ++c)
        if (!columns_[c]->has_next() || columns_[c]->repetition() != 0)
          throw Error("column '{}' has fewer values than rows, or a row that begins in a list",
                      field->name);
      out.set(field->name, node(*field));
    }
    return out;
  }

  int64_t bytes_read() const {
    int64_t bytes = 0;
    for (const auto& c : columns_) bytes += c ? c->bytes_read() : 0;
    return bytes;
  }

 private:
  // The column that decides about a node.
  ParquetColumn& first(const ParquetNode& n) {
    ParquetColumn& c = *columns_[n.first_column];
    if (!c.has_next()) throw Error("column '{}' ends too early", n.name);
    return c;
  }

  // Consumes the null, or the mark of an empty list, of each column below a node.
  void take_absent(const ParquetNode& n) {
    for (int c = n.first_column; c < n.first_column + n.columns; ++c) {
      if (!columns_[c]->has_next() || columns_[c]->definition() >= n.definition)
        throw Error("the columns of '{}' disagree on what is null", n.name);
      take(*columns_[c]);
    }
  }

  ParquetValue take(ParquetColumn& c) {
    if (++values_ > kMostValues) throw Error("the row has more than {} values", kMostValues);
    return c.take();
  }

  Tree node(const ParquetNode& n) {
    const bool present = first(n).definition() >= n.definition;
    if (n.repetition == Repetition::kRepeated) return list(n, present);
    if (present) return content(n);
    take_absent(n);
    return Tree();
  }

  Tree list(const ParquetNode& n, bool present) {
    Tree out = Tree::list();
    if (!present) {
      take_absent(n);
      return out;
    }
    do {
      out.push(content(n));
      ParquetColumn& c = *columns_[n.first_column];
      if (!c.has_next() || c.repetition() != n.repeated) break;
    } while (first(n).definition() >= n.definition);
    return out;
  }

  // The value of a node that is present.
  Tree content(const ParquetNode& n) {
    if (n.children.empty()) return value(n);
    if (n.is_list && n.children.size() == 1 && n.children[0].repetition == Repetition::kRepeated)
      return elements(n.children[0]);
    Tree out = Tree::object();
    for (const ParquetNode& child : n.children) out.set(child.name, node(child));
    return out;
  }

  // A LIST has a repeated group with one member, the element; old files have the element itself.
  Tree elements(const ParquetNode& repeated) {
    Tree out = node(repeated);
    const bool wraps = repeated.children.size() == 1 && !repeated.is_list &&
                       repeated.children[0].repetition != Repetition::kRepeated &&
                       repeated.name != "array" && !repeated.name.ends_with("_tuple");
    if (!wraps) return out;
    for (Tree& element : std::get<Tree::List>(out.value)) {
      Tree inner = std::move(std::get<Tree::Members>(element.value).at(0).second);
      element = std::move(inner);
    }
    return out;
  }

  // Differences of INT32 are sums modulo 2^32.
  static Tree integer(const ParquetNode& n, int64_t value) {
    if (n.type == ParquetType::kInt32)
      return Tree(n.is_unsigned ? int64_t{static_cast<uint32_t>(value)}
                                : int64_t{static_cast<int32_t>(value)});
    if (n.is_unsigned && value < 0) return Tree(static_cast<double>(static_cast<uint64_t>(value)));
    return Tree(value);
  }

  Tree value(const ParquetNode& n) {
    ParquetColumn& c = first(n);
    if (c.is_null()) throw Error("the columns of '{}' disagree on what is null", n.name);
    const ParquetValue v = take(c);
    if (const auto* text = std::get_if<std::string_view>(&v)) {
      bytes_ += std::ssize(*text);
      if (bytes_ > kMostBytes) throw Error("the row has more than {} bytes", kMostBytes);
      return Tree(std::string(*text));
    }
    if (const auto* n64 = std::get_if<int64_t>(&v)) return integer(n, *n64);
    if (const auto* real = std::get_if<double>(&v)) return Tree(*real);
    return Tree(std::get<bool>(v));
  }

  const std::vector<const ParquetNode*>& fields_;
  std::vector<std::unique_ptr<ParquetColumn>> columns_;  // null: not read
  int64_t values_ = 0, bytes_ = 0;                       // counts for the row
};

ParquetFile::ParquetFile(const std::string& name, const std::vector<std::string>& only)
    : name_(name), file_(name) {
  const auto damaged = [&](const std::string& what) -> Error {
    return Error("{}: {}. Write the Parquet file again, or convert it to JSON lines.", name_, what);
  };
  std::string tail(static_cast<size_t>(kTail), '\0');
  if (file_.size() < kTail + std::ssize(kMagic))
    throw damaged(fmt::format("is not a Parquet file: it has {} bytes", file_.size()));
  file_.read(file_.size() - kTail, std::as_writable_bytes(std::span(tail)));
  if (tail.ends_with(kEncryptedMagic)) throw damaged("is encrypted, which is not supported");
  if (!tail.ends_with(kMagic)) throw damaged("is not a Parquet file: it does not end with PAR1");
  uint32_t footer_bytes = 0;
  std::memcpy(&footer_bytes, tail.data(), sizeof footer_bytes);
  const int64_t data_end = file_.size() - kTail - footer_bytes;
  if (data_end < 0 || footer_bytes > kLargestFooter)
    throw damaged(fmt::format("its footer has {} bytes, expected at most {}", footer_bytes,
                              std::min(file_.size() - kTail, kLargestFooter)));
  std::string footer(footer_bytes, '\0');
  file_.read(data_end, std::as_writable_bytes(std::span(footer)));
  try {
    read_metadata(footer, data_end, metadata_);
  } catch (const Error& e) {
    throw damaged(e.what());
  }
  std::vector<std::string> names;
  for (const ParquetNode& field : metadata_.root.children) {
    names.push_back(field.name);
    const bool asked = std::ranges::find(only, field.name) != only.end();
    if (!only.empty() && !asked) continue;
    if (const ParquetNode* bad = unsupported(field)) {
      if (asked)
        throw Error(
            "{}: column '{}' has {}, expected texts, numbers, flags, or lists and structs "
            "of them.",
            name_, bad->name, type_name(*bad));
      continue;
    }
    fields_.push_back(&field);
  }
  if (fields_.empty() && only.empty())
    throw Error("{}: no column has texts, numbers, flags, or lists and structs of them; it has {}.",
                name_, fmt::join(names, ", "));
  for (const std::string& column : only)
    if (std::ranges::find(names, column) == names.end())
      throw Error("{}: there is no column '{}'; it has {}.", name_, column, fmt::join(names, ", "));
}

ParquetFile::~ParquetFile() = default;

void ParquetFile::open_group() {
  const RowGroup& g = metadata_.groups[group_++];
  if (reader_) bytes_read_ += reader_->bytes_read();
  reader_ = std::make_unique<RowReader>(file_, metadata_, g, fields_);
  left_ = g.rows;
}

bool ParquetFile::next(Tree& row) {
  try {
    while (left_ == 0) {
      if (group_ >= metadata_.groups.size()) return false;
      open_group();
    }
    --left_;
    ++row_;
    row = reader_->row();
  } catch (const Error& e) {
    throw Error("{}: row {}: {}", name_, row_, e.what());
  }
  row.line = static_cast<int>(std::min<int64_t>(row_, INT32_MAX));
  return true;
}

}  // namespace tessera::data
