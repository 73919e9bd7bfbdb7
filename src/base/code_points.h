// Properties and mappings of Unicode code points. They are those of utf8proc, which only
// code_points.cc includes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

using CodePoint = int32_t;

// Returns the code point of a text that is one character; -1 if it is not UTF-8.
CodePoint code_point_of(std::string_view character);
void append_utf8(CodePoint code, std::string& out);

// ---- Normalization (Unicode Standard Annex 15)

struct Normalization {
  bool composes = false;    // NFC, NFKC
  bool compatible = false;  // NFKC, NFKD
};

int combining_class(CodePoint code);  // 0: not a combining mark

// Appends the decomposition of one character. Marks are not ordered yet.
void append_decomposed(CodePoint code, Normalization form, std::vector<CodePoint>& codes);

// Composes decomposed characters whose marks are in canonical order.
void compose(std::vector<CodePoint>& codes, Normalization form);

// ---- Case

// Map one letter to one letter. Other code points are unchanged.
CodePoint to_upper(CodePoint code);
CodePoint to_lower(CodePoint code);
CodePoint to_title(CodePoint code);

// Returns the full case folding, which may have up to three letters: "ss" of "ß".
std::vector<CodePoint> case_folding(CodePoint code);

bool is_upper(CodePoint code);
bool is_lower(CodePoint code);
bool is_title(CodePoint code);  // such as "ǅ", which is both

// Returns true for marks, format characters and modifiers of letters: the general categories Mn,
// Me, Cf, Lm and Sk.
bool modifies_letters(CodePoint code);

}  // namespace tessera
