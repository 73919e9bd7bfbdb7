// Recognizes binary formats by their magic numbers, and other files by the share of bytes that do
// not occur in text. A magic number that could begin a text counts only if the file has such bytes.
#include "data/documents.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/utf8.h"
#include "data/source_list.h"

namespace tessera::data {
namespace {

using namespace std::string_view_literals;

constexpr const char* kToJsonLines =
    "Convert it to JSON lines, for example with pandas: read it and call "
    "to_json('x.jsonl', orient='records', lines=True).";
constexpr const char* kUnpack = "Unpack it and give the text files inside it.";
constexpr const char* kNoText = "It contains no text to train on: omit it.";

struct Format {
  std::string_view magic, name;
  const char* advice;
  size_t at = 0;          // offset of the magic number
  bool is_words = false;  // could begin a text: counts only if the file has bytes that text lacks
};

constexpr std::array kFormats = {
    Format{"PAR1"sv, "a Parquet file",
           "Give it a name that ends in .parquet, or use --format parquet.", 0, true},
    Format{"ARROW1"sv, "an Arrow file", kToJsonLines, 0, true},
    Format{"ORC"sv, "an ORC file", kToJsonLines, 0, true},
    Format{"Obj\x01"sv, "an Avro file", kToJsonLines},
    Format{"SQLite format 3\0"sv, "an SQLite database", kToJsonLines},
    Format{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kToJsonLines},
    Format{"\x93NUMPY"sv, "a NumPy array",
           "If it contains token ids, write a .bin and .idx pair (docs/data_formats.md)."},
    Format{"MMIDIDX\0\0"sv, "the index of a dataset",
           "It is tokenized already: give the prefix of the pair to training (data.train)."},
    Format{"PK\x03\x04"sv, "a zip archive (or .docx, .xlsx, .npz, .pt)", kUnpack},
    Format{"ustar"sv, "a tar archive", kUnpack, 257},
    Format{"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    Format{"Rar!\x1a\x07"sv, "a RAR archive", kUnpack},
    Format{"\xfd"
           "7zXZ\0"sv,
           "an xz file", "Decompress it with `xz -d`; .gz and .zst are read as they are."},
    Format{"1AY&SY"sv, "a bzip2 file",
           "Decompress it with `bunzip2`; .gz and .zst are read as they are.", 4},
    Format{"\x04\x22\x4d\x18"sv, "an LZ4 file",
           "Decompress it with `lz4 -d`; .gz and .zst are read as they are."},
    Format{"\x1f\x8b"sv, "a gzip file inside a compressed file", "Decompress it once."},
    Format{"\x28\xb5\x2f\xfd"sv, "a zstd file inside a compressed file", "Decompress it once."},
    Format{"%PDF-"sv, "a PDF document", "Extract its text with `pdftotext`."},
    Format{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old Office document",
           "Save it as text in the program that wrote it."},
    Format{"\x7f"
           "ELF"sv,
           "a program or library (ELF)", kNoText},
    Format{"GGUF"sv, "a GGUF model", kNoText, 0, true},
    Format{"\x89PNG\r\n"sv, "a PNG image", kNoText},
    Format{"\xff\xd8\xff"sv, "a JPEG image", kNoText},
    Format{"GIF89a"sv, "a GIF image", kNoText, 0, true},
    Format{"OggS\0"sv, "an Ogg file", kNoText},
    Format{"\xff\xfe"sv, "text in UTF-16", "Convert it: iconv -f UTF-16 -t UTF-8."},
    Format{"\xfe\xff"sv, "text in UTF-16", "Convert it: iconv -f UTF-16 -t UTF-8."},
};

bool is_text_byte(unsigned char c) {
  return c >= 0x20 ? c != 0x7f : (c >= '\t' && c <= '\r') || c == 0x1b;
}

// Counts zeros, other control characters and bytes that are not UTF-8, including those of a
// character that is truncated by the end of `start`.
size_t count_strange(std::string_view start) {
  size_t strange = 0;
  for (size_t i = 0; i < start.size();) {
    const size_t n = utf8_length(start, i);
    const bool ok = n > 1 || (n == 1 && is_text_byte(start[i]));
    strange += ok ? 0 : 1;
    i += std::max<size_t>(n, 1);
  }
  return strange;
}

// Detects UTF-16 without a byte order mark: in western text, either the even or the odd bytes are
// mostly zero.
bool is_wide(std::string_view start) {
  std::array<size_t, 2> zeros{};
  for (size_t i = 0; i < start.size(); ++i) zeros[i % 2] += start[i] == '\0' ? 1 : 0;
  const auto [few, many] = std::minmax(zeros[0], zeros[1]);
  return many > start.size() / 4 && few < many / 8;
}

}  // namespace

void refuse_what_is_not_text(std::string_view start, const std::string& source) {
  // More than a tenth of the bytes, and at least 32: a few broken characters are common in real
  // text.
  constexpr size_t kFew = 32, kShare = 10;
  const size_t strange = count_strange(start);
  const bool is_strange = strange >= kFew && strange > start.size() / kShare;
  for (const Format& f : kFormats) {
    if (start.size() < f.at || !start.substr(f.at).starts_with(f.magic)) continue;
    if (f.is_words && strange == 0) continue;
    throw Error("{}: is {}, expected text. {}", source, f.name, f.advice);
  }
  if (!is_strange) return;
  if (is_wide(start))
    throw Error("{}: is text in UTF-16, expected UTF-8. Convert it: iconv -f UTF-16LE -t UTF-8.",
                source);
  throw Error(
      "{}: is not text in UTF-8: {} of its first {} bytes are control characters or not UTF-8. "
      "Convert text of another encoding (iconv -f ENCODING -t UTF-8), or read the bytes as they "
      "are with --any-bytes.",
      source, strange, start.size());
}

bool named_table(std::string_view name) {
  name = without_compression(name);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

}  // namespace tessera::data
