// Detects files that are not text, so that a table or a program is not tokenized by mistake.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Number of bytes of a file that are checked.
constexpr size_t kTextProbe = size_t{1} << 16;

// `start`: the first bytes of the file `source`, decompressed, at most kTextProbe of them. Throws
// Error for a file that is known by its first bytes (Parquet, zip, ELF, PDF, NumPy, …), with the
// way to convert it; for UTF-16; and where more than a tenth of the bytes (and 32 or more) are
// zeros, other control characters or not UTF-8.
void refuse_what_is_not_text(std::string_view start, const std::string& source);

// Whether a file of that name holds a table as text: .csv or .tsv, also with .gz or .zst.
bool named_table(std::string_view name);

}  // namespace tessera
