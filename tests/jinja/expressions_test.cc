#include <gtest/gtest.h>

#include "jinja/python_text.h"
#include "tests/jinja/rendered.h"

// The expected texts are those of Jinja 3.1 with the `tojson` of transformers.
namespace tessera::jinja {
namespace {

void shows(const std::string& expression, const std::string& expected,
           const std::string& variables = "{}") {
  EXPECT_EQ(rendered("{{ " + expression + " }}", variables), expected) << expression;
}

TEST(Expressions, Arithmetic) {
  shows("1 + 2 * 3 - 4 // 3", "6");
  shows("-7 // 2", "-4");
  shows("-7 % 3", "2");
  shows("7 / 2", "3.5");
  shows("4 / 2", "2.0");
  shows("2 ** 10", "1024");
  shows("2 ** -1", "0.5");
  shows("1.5e3", "1500.0");
  shows("1e16", "1e+16");
  shows("0.1 + 0.2", "0.30000000000000004");
  shows("-2 | abs", "2");
  shows("'ab' * 2 + 'c'", "ababc");
  shows("[1] + [2, 3]", "[1, 2, 3]");
  shows("1 ~ 'a' ~ none ~ true", "1aNoneTrue");
}

TEST(Expressions, LogicAndComparisons) {
  shows("1 < 2 < 3 and not 3 < 2", "True");
  shows("'' or 'x'", "x");
  shows("'' and 'x'", "");
  shows("'a' in 'cat'", "True");
  shows("'b' not in ['a']", "True");
  shows("'k' in {'k': 1}", "True");
  shows("x in [1]", "False");
  shows("'y' if x else 'n'", "n");
  shows("'y' if x", "");
  shows("1 == 1.0", "True");
  shows("[1, 2] == [1, 2]", "True");
  shows("(1, 2) == [1, 2]", "False");
  shows("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", "True");
  shows("none == false", "False");
  shows("not x is defined", "True");
}

TEST(Expressions, Subscripts) {
  const std::string v = R"({"s": "häuser", "l": [1, 2, 3], "d": {"items": 5, "k": {"n": null}}})";
  shows("s[1]", "ä", v);
  shows("s[-2:]", "er", v);
  shows("s[::-1]", "resuäh", v);
  shows("l[::2]", "[1, 3]", v);
  shows("l[5] is defined", "False", v);
  shows("l[-1] + l.0", "4", v);
  shows("d['items']", "5", v);
  shows("d.items() | list", "[('items', 5), ('k', {'n': None})]", v);
  shows("d.k.n.missing is defined", "False", v);
  shows("d.get('x', 'y') ~ d.get('z')", "yNone", v);
  shows("s | length", "6", v);
}

TEST(Expressions, PrintsAsPython) {
  shows("none", "None");
  shows("[1, 'a', \"it's\", none, true, 1.0, {'k': [()]}]",
        "[1, 'a', \"it's\", None, True, 1.0, {'k': [()]}]");
  shows("['\\n\\u200b\\x07é']", "['\\n\\u200b\\x07é']");
  shows("(1,)", "(1,)");
  shows("'a\\tb\\x41\\u00e9\\q'", "a\tbAé\\q");
  shows("'a' 'b'", "ab");
}

TEST(Expressions, ToJson) {
  const std::string v = R"({"x": {"b": [1, 2.5, "é\"\n<"], "a": {}, "c": []}})";
  shows("x | tojson", R"({"b": [1, 2.5, "é\"\n<"], "a": {}, "c": []})", v);
  shows("x | tojson(indent=2)",
        "{\n  \"b\": [\n    1,\n    2.5,\n    \"é\\\"\\n<\"\n  ],\n  \"a\": {},\n  \"c\": []\n}",
        v);
  shows("x | tojson(sort_keys=true, separators=(',', ':'))",
        R"({"a":{},"b":[1,2.5,"é\"\n<"],"c":[]})", v);
  shows("'é😀' | tojson(ensure_ascii=true)", R"("\u00e9\ud83d\ude00")");
}

TEST(Expressions, Filters) {
  const std::string v =
      R"({"m": [{"r": "user", "n": 2}, {"r": "bot", "n": 1}], "d": {"b": 1, "A": 2}})";
  shows("m | map(attribute='r') | join(', ')", "user, bot", v);
  shows("m | selectattr('r', 'equalto', 'bot') | list | length", "1", v);
  shows("none | selectattr('r') | map(attribute='r') | join", "");
  shows("0 | select | list | length", "0");
  shows("m | rejectattr('n', 'gt', 1) | map(attribute='r') | first", "bot", v);
  shows("m | sort(attribute='n') | map(attribute='n') | list", "[1, 2]", v);
  shows("(m | selectattr('r', 'equalto', 'none')) and 'true'", "true", v);  // a generator is true
  shows("d | dictsort", "[('A', 2), ('b', 1)]", v);
  shows("d | items | list", "[('b', 1), ('A', 2)]", v);
  shows("[' a ', 'b'] | map('trim') | list", "['a', 'b']");
  shows("[1, 0, 2] | select | list", "[1, 2]");
  shows("x | default('y') ~ ('' | default('z', true)) ~ none | default('w')", "yzNone");
  shows("' x\\u3000' | trim ~ '|'", "x|");
  shows("'hello wORLD' | title ~ ('aB' | capitalize) ~ ('aB' | upper)", "Hello WorldAbAB");
  shows("'12' | int + ('x' | int) + (3.9 | int)", "15");
  shows("'a\\nb\\n\\nc' | indent(2)", "a\n  b\n\n  c");
  shows("'aXbX' | replace('X', '-')", "a-b-");
  shows("[3, 1, 3] | unique | list", "[3, 1]");
  shows("['a', 'b'] | last ~ ([] | first is defined)", "bFalse");
  shows("'abc' | list", "['a', 'b', 'c']");
}

TEST(Expressions, Methods) {
  shows("'a,b,,c'.split(',')", "['a', 'b', '', 'c']");
  shows("' a  b c '.split()", "['a', 'b', 'c']");
  shows("' a  b c '.split(none, 1)", "['a', 'b c ']");
  shows("'a-b-c'.rsplit('-', 1)", "['a-b', 'c']");
  shows("'xxhixx'.strip('x') ~ 'xxhi'.lstrip('x') ~ 'hixx'.rstrip('x')", "hihihi");
  shows("'abc'.startswith('ab') and 'abc'.endswith(('x', 'c'))", "True");
  shows("'aaa'.replace('a', 'b', 2)", "bba");
  shows("'é'.replace('', '-')", "-é-");
  shows("'-'.join(['a', 'b'])", "a-b");
  shows("'x</think>y'.split('</think>')[-1]", "y");
  shows("'a\\r\\nb\\n'.splitlines()", "['a', 'b']");
  shows("'äbc'.find('c') ~ 'aXa'.count('a') ~ '12'.isdigit()", "22True");
}

TEST(Expressions, Tests) {
  shows("'a' is string and {} is mapping and [] is iterable and 'a' is iterable", "True");
  shows("[] is sequence and 'a' is sequence and not 1 is iterable", "True");
  shows("true is boolean and true is true and not 1 is boolean and 1 is number", "True");
  shows("none is none and x is undefined and 3 is odd and 4 is divisibleby 2", "True");
  shows("1 is integer and not true is integer and 1.0 is float", "True");
  shows("2 is in [1, 2] and x is not defined", "True");
}

// The values of Python's str methods and of Jinja's filter `title`.
TEST(Expressions, CaseOfAllLetters) {
  shows("'straße ﬁ ŉ ǆ ᾳ \u0390'.upper()", "STRASSE FI ʼN Ǆ ΑΙ \u0399\u0308\u0301");
  shows("'ÀÉ ΣΊΣΥΦΟΣ, ΟΣ. Σ İẞ Ж'.lower()", "àé σίσυφος, ος. σ i̇ß ж");
  shows("'ΑΣ\\'Σ ΑΣ\\'Β'.lower()", "ασ'ς ασ'β");
  shows("'élan ßa ﬁx ǆ ᾲ ŉa öl-ÖL 2x ʰX'.title()", "Élan Ssa Fix ǅ Ὰͅ ʼNa Öl-Öl 2X ʰx");
  shows("'ßTRAẞE ΑΣ'.capitalize()", "Sstraße ας");
  shows("'éLAN d\\'été ßa\\u2003(ös) öl_öl' | title", "Élan D'été SSa\u2003(Ös) Öl_öl");
  shows("'ÉLAN' | lower ~ 'é' | upper ~ 'éÉ' | capitalize", "élanÉÉé");
  EXPECT_EQ(with_case("a\xffé", Case::kUpper), "A\xffÉ");  // a byte that is not UTF-8
}

TEST(Expressions, ArgumentsFromAListOrDictionary) {
  shows("'a-b-c'.split(*['-', 1])", "['a', 'b-c']");
  shows("range(*(1, 4)) | list", "[1, 2, 3]");
  shows("dict(a=1, **{'b': 2})", "{'a': 1, 'b': 2}");
  shows("'x' | replace(*'xy')", "y");
  EXPECT_NE(error_of("{{ range(*3) }}").find("1:"), std::string::npos);
  EXPECT_NE(error_of("{{ dict(**[1]) }}").find("is a list, expected a dictionary"),
            std::string::npos)
      << error_of("{{ dict(**[1]) }}");
  for (const char* wrong : {"f(*a, *b)", "f(*a, 1)", "f(**a, b=1)", "f(**a, **b)", "f(a=1, 2)"})
    EXPECT_NE(error_of(fmt::format("{{{{ {} }}}}", wrong)).find("expected"), std::string::npos)
        << wrong;
}

}  // namespace
}  // namespace tessera::jinja
