// Writes and parses index.json, and checks everything in it that does not need the data files.
//
// A parsed index is safe to use: every piece is inside its tensor and its file, begins at an
// aligned offset, has the bytes of its box, and the pieces of a tensor cover it exactly once. The
// text ends in the XXH3 checksum of all bytes before it, which is checked first, so a truncated or
// edited index is reported as such and not as a parse error.
#include "checkpoint/index.h"

#include <algorithm>
#include <charconv>

#include "base/renamed_keys.h"
#include "base/shape.h"
#include "checkpoint/checksum.h"
#include "checkpoint/tree_fields.h"

namespace tessera::checkpoint {

const char* tokenizer_file_name(std::string_view bytes) {
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != bytes.npos && bytes[first] == '{' ? kTokenizerFile : kSentencePieceFile;
}

std::string pieces_file(int64_t rank) { return fmt::format("pieces-{}.bin", rank); }
std::string piece_list_file(int64_t rank) { return fmt::format("pieces-{}.json", rank); }

namespace {

constexpr std::string_view kFormatName = "tessera checkpoint";
constexpr std::string_view kTailStart = ",\n\"xxh3\":\"";
constexpr std::string_view kTailEnd = "\"}\n";
constexpr size_t kTailBytes = kTailStart.size() + 16 + kTailEnd.size();
constexpr int64_t kMaxElements = int64_t{1} << 56;  // far above any model; sizes do not overflow
constexpr int kMaxRank = 16;                        // a model's tensors have at most 4 dimensions
constexpr int64_t kMaxCount = int64_t{1} << 53;     // limit for steps, tokens and bytes
constexpr int64_t kMaxRanks = 1 << 24;

// Returns the checksum of an object. Requires all 16 digits, so that a truncated number is not read
// as another checksum.
uint64_t checksum_member(const Tree& object, const std::string& source) {
  const std::string& s = text_member(object, "xxh3", source);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value, 16);
  if (s.size() != 16 || error != std::errc() || end != s.data() + s.size())
    throw Error("{}: 'xxh3' is '{}', expected 16 hexadecimal digits", place_of(source, object), s);
  return value;
}

// Reads a piece and checks its numbers independently; check_cover() compares pieces with files and
// with each other.
StoredPiece piece_from_tree(const Tree& tree, const std::string& source) {
  StoredPiece p;
  p.begin = extents_member(tree, "begin", source);
  p.end = extents_member(tree, "end", source);
  const int64_t file = integer_member(tree, "file", source);
  p.offset = integer_member(tree, "offset", source);
  p.bytes = integer_member(tree, "bytes", source);
  if (file < 0 || file > INT32_MAX || p.offset < 0 || p.bytes < 0)
    throw Error(
        "{}: file is {}, offset {} and bytes {}, expected 0 or more (file: at most 2^31 - 1)",
        place_of(source, tree), file, p.offset, p.bytes);
  if (p.offset % kPieceAlignment != 0)
    throw Error("{}: offset is {}, expected a multiple of {}", place_of(source, tree), p.offset,
                kPieceAlignment);
  p.file = file;
  p.checksum = checksum_member(tree, source);
  return p;
}

// Throws Error if any product of extents could overflow. Zeros count as 1 here, because other code
// multiplies only some of the extents.
void check_shape(const StoredTensor& t, const std::string& place) {
  if (t.shape.rank() > kMaxRank)
    throw Error("{}: '{}' has {} dimensions, expected at most {}", place, t.name, t.shape.rank(),
                kMaxRank);
  int64_t elements = 1;
  for (const int64_t n : t.shape.dims()) {
    if (n > 0 && elements > kMaxElements / n)
      throw Error("{}: '{}' cannot have the shape {}", place, t.name, to_string(t.shape));
    elements *= std::max<int64_t>(n, 1);
  }
}

// Returns an integer of the header. Throws Error if it is not in [least, most].
int64_t ranged_member(const Tree& object, std::string_view name, int64_t least, int64_t most,
                      const std::string& source) {
  const int64_t n = integer_member(object, name, source);
  if (n < least || n > most)
    throw Error("{}: '{}' is {}, expected {} to {}", place_of(source, member(object, name, source)),
                name, n, least, most);
  return n;
}

// Reads a tensor and its pieces, whose bytes must be those of their boxes.
StoredTensor tensor_from_tree(const Tree& tree, const std::string& source) {
  StoredTensor t;
  t.name = text_member(tree, "name", source);
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (t.name.empty() || std::any_of(t.name.begin(), t.name.end(), is_control))
    throw Error("{}: '{}' is not the name of a tensor", place_of(source, tree), t.name);
  const std::string& dtype = text_member(tree, "dtype", source);
  const auto known = dtype_from_name(dtype);
  if (!known)
    throw Error("{}: '{}' has the unknown type '{}'. A newer version may read it.",
                place_of(source, tree), t.name, dtype);
  t.dtype = *known;
  t.shape = Shape(extents_member(tree, "shape", source));
  check_shape(t, place_of(source, tree));
  for (const Tree& piece : list_member(tree, "pieces", source)) {
    StoredPiece p = piece_from_tree(piece, source);
    const Box box{p.begin, p.end};
    if (!is_inside(box, t.shape))
      throw Error("{}: this piece of '{}' exceeds its shape {}", place_of(source, piece), t.name,
                  to_string(t.shape));
    if (p.bytes != box.elements() * size_of(t.dtype))
      throw Error("{}: this piece of '{}' has 'bytes' {}, but its box has {} bytes",
                  place_of(source, piece), t.name, p.bytes, box.elements() * size_of(t.dtype));
    t.pieces.push_back(std::move(p));
  }
  return t;
}

// Checks the tensors as a whole: their order, that pieces are inside their files, and that pieces
// cover the tensors.
void check_cover(const CheckpointIndex& index, const std::string& source) {
  const std::string* before = nullptr;
  for (const StoredTensor& t : index.tensors) {
    if (before && *before >= t.name)
      throw Error("{}: the tensors '{}' and '{}' are not in order", source, *before, t.name);
    before = &t.name;
    std::vector<Box> boxes;
    for (const StoredPiece& p : t.pieces) {
      boxes.push_back({p.begin, p.end});
      const bool known = p.file < std::ssize(index.files);
      const int64_t file_bytes = known ? index.files[p.file].bytes : 0;
      // Compared without a sum, which could overflow.
      if (!known || p.bytes > file_bytes || p.offset > file_bytes - p.bytes)
        throw Error("{}: a piece of '{}' at byte {} of file {} exceeds that file", source, t.name,
                    p.offset, p.file);
    }
    if (!tile(boxes, t.shape))
      throw Error("{}: the {} pieces of '{}' do not cover its shape {} exactly once", source,
                  t.pieces.size(), t.name, to_string(t.shape));
  }
}

Tree header_tree(const CheckpointIndex& index) {
  const CheckpointHeader& h = index.header;
  Tree root = Tree::object();
  root.set("format", Tree(std::string(kFormatName)));
  root.set("format_version", Tree(int64_t{kCheckpointFormat}));
  root.set("version", Tree(h.version));
  root.set("step", Tree(h.step));
  root.set("tokens", Tree(h.tokens));
  root.set("ranks", Tree(h.ranks));
  root.set("model", h.model);
  root.set("config", h.config);
  root.set("state", h.state);
  Tree tokenizer;
  if (index.has_tokenizer) {
    tokenizer.set("bytes", Tree(index.tokenizer_bytes));
    tokenizer.set("xxh3", Tree(checksum_text(index.tokenizer_checksum)));
  }
  root.set("tokenizer", std::move(tokenizer));
  Tree files = Tree::list();
  for (const StoredFile& f : index.files) {
    Tree file = Tree::object();
    file.set("name", Tree(f.name));
    file.set("bytes", Tree(f.bytes));
    files.push(std::move(file));
  }
  root.set("files", std::move(files));
  return root;
}

// Returns a section of the header, which is an object, or null if the section is absent.
Tree section_member(const Tree& root, std::string_view name, const std::string& source) {
  const Tree& found = member(root, name, source);
  if (!found.is_null() && !found.as_members())
    throw Error("{}: '{}' is {}, expected an object", place_of(source, found), name,
                kind_of(found));
  return found;
}

// Reads the header. Model, configuration and state are kept as trees, because other versions may
// have keys that this one does not have. Keys of earlier versions get their present names.
CheckpointHeader header_from_tree(const Tree& root, const std::string& source) {
  CheckpointHeader h;
  h.version = text_member(root, "version", source);
  h.step = ranged_member(root, "step", 0, kMaxCount, source);
  h.tokens = ranged_member(root, "tokens", 0, kMaxCount, source);
  h.ranks = ranged_member(root, "ranks", 1, kMaxRanks, source);
  h.model = with_present_names(section_member(root, "model", source), "model");
  h.config = with_present_names(section_member(root, "config", source));
  h.state = section_member(root, "state", source);
  return h;
}

// Checks the tail: `,"xxh3":"<16 digits>"}` and a line end. Its length is fixed, so the checksum is
// found without parsing.
void check_tail(std::string_view text, const std::string& source) {
  const bool has_tail = text.size() > kTailBytes && text.ends_with(kTailEnd) &&
                        text.substr(text.size() - kTailBytes).starts_with(kTailStart);
  if (!has_tail)
    throw Error(
        "{}: the end is missing after {} bytes. The file was truncated, or it is not the index of "
        "a checkpoint. Use another checkpoint.",
        source, text.size());
  const std::string_view body = text.substr(0, text.size() - kTailBytes);
  const std::string_view stated = text.substr(body.size() + kTailStart.size(), 16);
  const std::string found = checksum_text(checksum_of(body));
  if (stated != found)
    throw Error(
        "{}: its checksum is {}, expected {} as stored in it: it was changed or damaged after it "
        "was written. Use another checkpoint.",
        source, found, stated);
}

// Throws Error for a file name that could refer to a file outside the checkpoint's folder.
void check_file_name(const std::string& name, const Tree& place, const std::string& source) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw Error("{}: '{}' is not the name of a file in this folder", place_of(source, place), name);
}

}  // namespace

Tree to_tree(const std::vector<StoredTensor>& tensors) {
  Tree list = Tree::list();
  for (const StoredTensor& t : tensors) {
    Tree tensor = Tree::object();
    tensor.set("name", Tree(t.name));
    tensor.set("dtype", Tree(std::string(name_of(t.dtype))));
    tensor.set("shape", integer_list(t.shape.dims()));
    Tree pieces = Tree::list();
    for (const StoredPiece& p : t.pieces) {
      Tree piece = Tree::object();
      piece.set("begin", integer_list(p.begin));
      piece.set("end", integer_list(p.end));
      piece.set("file", Tree(p.file));
      piece.set("offset", Tree(p.offset));
      piece.set("bytes", Tree(p.bytes));
      piece.set("xxh3", Tree(checksum_text(p.checksum)));
      pieces.push(std::move(piece));
    }
    tensor.set("pieces", std::move(pieces));
    list.push(std::move(tensor));
  }
  return list;
}

std::vector<StoredTensor> tensors_from_tree(const Tree& tree, const std::string& source) {
  const Tree::List* list = tree.as_list();
  if (!list)
    throw Error("{}: found {}, expected a list of tensors", place_of(source, tree), kind_of(tree));
  std::vector<StoredTensor> tensors;
  for (const Tree& t : *list) tensors.push_back(tensor_from_tree(t, source));
  return tensors;
}

std::string to_text(const CheckpointIndex& index) {
  // One tensor per line, so that people can read it.
  std::string body = to_json(header_tree(index));
  body.pop_back();  // the closing brace
  body += ",\n\"tensors\":[";
  const char* separator = "\n";
  for (const StoredTensor& t : index.tensors) {
    const std::string one = to_json(to_tree(std::vector<StoredTensor>{t}));
    body += separator;
    body += one.substr(1, one.size() - 2);
    separator = ",\n";
  }
  // The checksum covers the text up to here; the tail completes the JSON object.
  body += "]";
  const std::string checksum = checksum_text(checksum_of(body));
  return body.append(kTailStart).append(checksum).append(kTailEnd);
}

// The order of the checks matters: the tail (is the file complete?), the format (can this version
// read it?), then the content.
CheckpointIndex parse_index(std::string_view text, const std::string& source) {
  check_tail(text, source);
  const Tree root = parse_json(text, source);
  if (text_member(root, "format", source) != kFormatName)
    throw Error("{}: found the format '{}', expected '{}'", source,
                text_member(root, "format", source), kFormatName);
  const int64_t format = integer_member(root, "format_version", source);
  // An unknown format is not damage: the file is intact, and another version can read it.
  if (format != kCheckpointFormat)
    throw OtherFormat(
        "{}: has format {}, but this program reads format {}. It was written by version {}: "
        "use that version or a newer one.",
        source, format, kCheckpointFormat, text_member(root, "version", source));
  CheckpointIndex index;
  index.header = header_from_tree(root, source);
  const Tree& tokenizer = member(root, "tokenizer", source);
  if (!tokenizer.is_null()) {
    index.has_tokenizer = true;
    index.tokenizer_bytes = ranged_member(tokenizer, "bytes", 0, kMaxCount, source);
    index.tokenizer_checksum = checksum_member(tokenizer, source);
  }
  for (const Tree& f : list_member(root, "files", source)) {
    StoredFile file{text_member(f, "name", source),
                    ranged_member(f, "bytes", 0, kMaxCount, source)};
    check_file_name(file.name, f, source);
    index.files.push_back(std::move(file));
  }
  index.tensors = tensors_from_tree(member(root, "tensors", source), source);
  check_cover(index, source);
  return index;
}

}  // namespace tessera::checkpoint
