#!/usr/bin/env python3
"""Writes src/data/unicode_tables.cc, the properties of every code point that all tokenizers use, and
src/data/unicode_categories.cc and unicode_scripts.cc, the sets of code points that expressions name.

Letters, numbers and spaces are those of Unicode 16.0.0, which Hugging Face tokenizers 0.23 uses in
its GPT-2 split. Its normalizer is older: it supports only Unicode 9.0, and leaves newer
characters unchanged. scripts/check_tokenizer.py tests both on every code point.

    python3 -m venv /tmp/ucd && /tmp/ucd/bin/pip install unicodedata2==16.0.0
    /tmp/ucd/bin/python scripts/unicode_tables.py        # needs perl, for the age of characters
"""
import os
import subprocess
import sys
import textwrap

import unicodedata2 as unicode

VERSION = "16.0.0"
NORMALISER_AGE = "9.0"
LETTER, NUMBER, SPACE, WORD, CHANGES, LITERAL = 1, 2, 3, 4, 8, 16
LAST = 0x10FFFF

# Alphabetic symbols that are not letters: circled, squared and parenthesized Latin.
ALPHABETIC_SYMBOLS = [(0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)]
# White_Space among the control characters; the others are all of category Z.
CONTROL_SPACES = {9, 10, 11, 12, 13, 0x85}
JOINERS = {0x200C, 0x200D}
CATEGORIES = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()


def characters():
    return (c for c in range(LAST + 1) if not 0xD800 <= c <= 0xDFFF)


def present_in(age):
    """The code points that are assigned in that version, by perl's tables."""
    program = (f"for (0..0x10FFFF) {{ next if $_ >= 0xD800 && $_ <= 0xDFFF; "
               f"print $_, ' ' if chr($_) =~ /\\p{{Present_In: {age}}}/ }}")
    out = subprocess.run(["perl", "-e", program], check=True, capture_output=True, text=True).stdout
    return {int(c) for c in out.split()}


def of_script(script):
    """The code points of a script. Perl's tables may be older: characters of later versions are added."""
    program = (f"for (0..0x10FFFF) {{ next if $_ >= 0xD800 && $_ <= 0xDFFF; "
               f"print $_, ' ' if chr($_) =~ /\\p{{Script={script}}}/ }}")
    out = subprocess.run(["perl", "-e", program], check=True, capture_output=True, text=True).stdout
    later = [range(0x31350, 0x323B0), range(0x2EBF0, 0x2EE5E)] if script == "Han" else []
    return sorted({int(c) for c in out.split()}.union(*later))


def is_space(c):
    # U+200B left category Z long ago; U+180E too.
    return c in CONTROL_SPACES or unicode.category(chr(c))[0] == "Z"


def word_class(c):
    """\\p{L}, \\p{N}, \\s and, by the bit WORD, \\w."""
    category = unicode.category(chr(c))
    flags = {"L": LETTER, "N": NUMBER}.get(category[0], SPACE if is_space(c) else 0)
    word = (category[0] in "LM" or category in ("Nd", "Nl", "Pc") or c in JOINERS
            or any(a <= c <= b for a, b in ALPHABETIC_SYMBOLS))
    return flags | (WORD if word else 0)


def compositions():
    """(first, second) of every pair that NFC composes."""
    pairs = set()
    for c in characters():
        parts = unicode.decomposition(chr(c)).split()
        if len(parts) == 2 and parts[0][0] != "<" and unicode.normalize("NFC", chr(c)) == chr(c):
            pairs.add(tuple(int(p, 16) for p in parts))
    return pairs


def normalisation(old):
    """CHANGES: NFC may change a text that holds this; LITERAL: HF's NFC does not support it."""
    pairs = compositions()
    firsts, seconds = {a for a, _ in pairs}, {b for _, b in pairs}
    hangul = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    flags = {}
    for c in characters():
        special = (unicode.combining(chr(c)) or c in seconds or c in hangul
                   or unicode.normalize("NFC", chr(c)) != chr(c))
        decomposes = unicode.decomposition(chr(c))[:1] not in ("", "<")
        young = c not in old and (special or decomposes or c in firsts)
        if special or young:
            flags[c] = CHANGES | (LITERAL if young else 0)
        elif c not in old and unicode.decomposition(chr(c)) != "":
            flags[c] = LITERAL
    return flags


def ranges():
    changes = normalisation(present_in(NORMALISER_AGE))
    last, out = -1, []
    for c in range(LAST + 1):
        flags = 0 if 0xD800 <= c <= 0xDFFF else word_class(c) | changes.get(c, 0)
        if flags != last:
            out.append((c, flags))
            last = flags
    return out


def write(name, text):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "src", "data", name), "w", encoding="utf-8") as f:
        f.write(text)


def array(name, kind, values):
    lines = textwrap.fill(" ".join(values), 98, initial_indent="  ", subsequent_indent="  ")
    return f"constexpr std::array<{kind}, {len(values)}> {name} = {{\n{lines}\n}};\n"


def file_text(header, arrays, functions):
    return f"""// Made by scripts/unicode_tables.py from Unicode {VERSION}; do not edit.
#include <array>

#include "{header}"

namespace tessera::data {{
namespace {{

// clang-format off
{arrays}// clang-format on

}}  // namespace

{functions}
}}  // namespace tessera::data
"""


def category_ranges():
    last, out = None, []
    for c in range(LAST + 1):
        category = "Cs" if 0xD800 <= c <= 0xDFFF else unicode.category(chr(c))
        if category != last:
            out.append(f"0x{c << 8 | CATEGORIES.index(category):x},")
            last = category
    return out


def pairs(codes):
    """The first and the last code point of each run."""
    out = []
    for c in codes:
        if out and out[-1] == c - 1:
            out[-1] = c
        else:
            out += [c, c]
    return [f"0x{c:x}," for c in out]


def categories():
    return file_text("data/unicode_sets.h", array("kCategories", "uint32_t", category_ranges()),
                     "std::span<const uint32_t> category_ranges() { return kCategories; }\n")


def of_age(letter, age, plus, minus):
    """A class as an older version of Unicode had it, with the characters that have moved since."""
    old = present_in(age)
    return sorted({c for c in old if unicode.category(chr(c))[0] == letter} - minus | plus)


def sets():
    """Scripts, and the older classes that Hugging Face's Punctuation and StripAccents use."""
    found = {"Han": of_script("Han"), "Hangul": of_script("Hangul"),
             "Hiragana": of_script("Hiragana"), "Katakana": of_script("Katakana"),
             "Punctuation8": of_age("P", "8.0", {0x166D, 0x111C9}, set()),
             "Marks9": of_age("M", "9.0", {0x1CF2, 0x1CF3}, {0x111C9})}
    arrays = cases = ""
    for name, codes in found.items():
        arrays += array("k" + name, "uint32_t", pairs(codes))
        cases += f'  if (name == "{name}") return k{name};\n'
    return file_text("data/unicode_sets.h", arrays, f"""std::span<const uint32_t> set_ranges(std::string_view name) {{
{cases}  return {{}};
}}
""")


def main():
    if unicode.unidata_version != VERSION:
        sys.exit(f"unicodedata2 is of Unicode {unicode.unidata_version}; expected {VERSION}: "
                 f"pip install unicodedata2=={VERSION}")
    found = [f"0x{c << 8 | flags:08x}," for c, flags in ranges()]
    write("unicode_tables.cc", file_text("data/unicode.h", array("kRanges", "uint32_t", found),
          "std::span<const uint32_t> unicode_ranges() { return kRanges; }\n"))
    write("unicode_categories.cc", categories())
    write("unicode_scripts.cc", sets())
    print(f"{len(found)} ranges of Unicode {VERSION}")


if __name__ == "__main__":
    main()
