#include "jinja/template.h"

#include <gtest/gtest.h>

#include "tests/jinja/rendered.h"

// The expected texts are those of Jinja 3.1 with trim_blocks and lstrip_blocks, as transformers
// sets them.
namespace tessera::jinja {
namespace {

TEST(Template, TrimsBlocksAndTheirIndentation) {
  EXPECT_EQ(rendered("a\n  {% if true %}\nb\n  {% endif %}\nc\n"), "a\nb\nc");
  EXPECT_EQ(rendered("a {%- if true -%}  b  {%- endif %} c"), "ab c");
  EXPECT_EQ(rendered("a\n  {%+ if true %}b{% endif %}"), "a\n  b");
  EXPECT_EQ(rendered("  {{ 'x' }}\n{{- 'y' }}  \n\n"), "  xy  \n");
  EXPECT_EQ(rendered("x\n   {# note #}\ny"), "x\ny");
  EXPECT_EQ(rendered("x {#- note -#} \n y"), "xy");
  EXPECT_EQ(rendered("{% if 1 +%}\nx{% endif %}"), "\nx");
  EXPECT_EQ(rendered("a\r\nb\r"), "a\nb");
  EXPECT_EQ(rendered("{{ {'a': {'b': 1}}['a']['b'] }}}}"), "1}}");
}

TEST(Template, Loops) {
  EXPECT_EQ(rendered("{% for m in x if m > 1 %}{{ loop.index }}:{{ m }}/{{ loop.length }} "
                     "{% else %}none{% endfor %}",
                     R"({"x": [1, 2, 3]})"),
            "1:2/2 2:3/2 ");
  EXPECT_EQ(rendered("{% for m in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(rendered("{% for k, v in x.items() %}{{ k }}={{ v }};{% endfor %}",
                     R"({"x": {"b": 1, "a": 2}})"),
            "b=1;a=2;");
  EXPECT_EQ(rendered("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
                     "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"),
            "023");
  EXPECT_EQ(rendered("{% for i in 'aé' %}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}"
                     "{{ loop.nextitem }}{{ loop.revindex }} {% endfor %}"),
            "TrueFalseé2 FalseTruea1 ");
}

// A variable that a loop sets ends with the pass; that is what namespaces are for.
TEST(Template, Scopes) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}"
                     "{{ x }}"),
            "15151");
  EXPECT_EQ(rendered("{% set n = namespace(a=1) %}{% for i in [1, 2] %}{% set n.a = n.a + i %}"
                     "{% endfor %}{{ n.a }}"),
            "4");
  EXPECT_EQ(rendered("{% if true %}{% set x = 3 %}{% endif %}{{ x }}"), "3");
  EXPECT_EQ(rendered("{% set x %}a{{ 1 }}{% endset %}{{ x }}{{ x }}"), "a1a1");
  EXPECT_EQ(rendered("{% set a, b = [1, 2] %}{{ b }}{{ a }}"), "21");
  EXPECT_EQ(rendered("{% set x = 1, 2 %}{{ x }}"), "(1, 2)");
}

TEST(Template, Macros) {
  EXPECT_EQ(rendered("{% macro f(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}"
                     "{{ f(1) }}{{ f(1, c=2) }}{{ f('x' ~ 1, 'y') }}"),
            "[1B1][1B2][x1yx1]");
  EXPECT_EQ(rendered("{% macro f(a, b, c='C') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}"
                     "{{ f(*[1, 2]) }}{{ f(1, *[2, 3]) }}{{ f(1, c=3, *[2]) }}"
                     "{{ f(*[1], **{'b': 2}) }}"),
            "[12C][123][123][12C]");
  EXPECT_EQ(rendered("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
                     "{{ f(3) }}"),
            "3210");
  EXPECT_EQ(rendered("{% macro f() %}{{ x }}{% endmacro %}{% set x = 7 %}{{ f() }}"), "7");
}

TEST(Template, GenerationSpans) {
  const Template t(
      "{% for m in x %}{{ m }}:{% generation %}{{ m }}é{% endgeneration %}\n|{% endfor %}",
      "t.jinja");
  EXPECT_TRUE(t.has_generation());
  const RenderedText r = t.render(parse_json(R"({"x": ["a", "bb"]})", "x"));
  EXPECT_EQ(r.text, "a:aé|bb:bbé|");
  const std::vector<std::pair<size_t, size_t>> spans{{2, 5}, {9, 13}};
  EXPECT_EQ(r.generated, spans);
}

TEST(Template, RejectsByNameWithLineAndColumn) {
  const auto says = [](const std::string& text, const std::string& message) {
    EXPECT_EQ(error_of(text), "t.jinja:" + message) << text;
  };
  says("a\n{% include 'x' %}", "2:4: the statement 'include' is not supported");
  says("{% raw %}", "1:4: the statement 'raw' is not supported");
  says("é{{ x | wordwrap }}", "1:9: the filter 'wordwrap' is not supported");
  says("{{ x is filter }}", "1:9: the test 'filter' is not supported");
  says("{{ x.format(1) }}", "1:6: the method 'format' is not supported");
  says("{{ x | map('wordwrap') }}", "1:12: the filter 'wordwrap' is not supported");
  says("{{ x | selectattr('a', 'like', 1) }}", "1:24: the test 'like' is not supported");
  says("{% if x %}", "1:11: 'endif' is missing");
  says("{% endfor %}", "1:4: 'endfor' ends no open statement");
  says("{{ x", "1:1: the tag is not closed, expected '}}'");
  says("{{ 'x }}", "1:4: the string is not closed");
  says("{{ x ] }}", "1:6: ']' does not close a bracket");
  says("{{ (x }}", "1:7: '}' does not close a bracket");
  says("{# x", "1:1: the comment is not closed, expected '#}'");
  says("{{ x $ }}", "1:6: unexpected character '$'");
  says("{{ }}", "1:4: the expression is incomplete, expected a value");
  says("{% for x of y %}", "1:10: found 'of', expected 'in'");
  says("{% break %}", "1:4: 'break' outside a loop");
  says("{% for x in y %}{% macro f() %}{% endmacro %}{% endfor %}",
       "1:20: a macro inside a loop, a macro or a `set` block is not supported");
}

TEST(Template, ErrorsOfEvaluationHaveAPlace) {
  EXPECT_EQ(error_of("\n {{ x.y.z }}"), "t.jinja:2:7: 'x' is undefined");
  EXPECT_EQ(error_of("{{ raise_exception('no ' ~ 'system') }}"),
            "t.jinja:1:19: the template rejects the conversation: no system");
  EXPECT_EQ(error_of("{{ f(1) }}"), "t.jinja:1:5: 'f' is undefined, so it cannot be called");
  EXPECT_EQ(error_of("{{ 1 / 0 }}"), "t.jinja:1:6: division by zero");
  EXPECT_EQ(error_of("{{ 'a' + 1 }}"),
            "t.jinja:1:8: the operator does not apply to a string and a number");
  EXPECT_NE(error_of("{{ strftime_now('%Y') }}").find("data.template_date"), std::string::npos);
}

TEST(Template, Limits) {
  EXPECT_NE(error_of("{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}")
                .find("more than 1000000 steps"),
            std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(s='ab') %}{% for a in range(40) %}"
                     "{% set n.s = n.s ~ n.s %}{% endfor %}")
                .find("longer than 67108864 bytes"),
            std::string::npos);
  EXPECT_NE(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("more than 100 deep"),
            std::string::npos);
  EXPECT_NE(
      error_of("{{ " + std::string(500, '(') + "1" + std::string(500, ')') + " }}").find("nested"),
      std::string::npos);
  std::string chain = "{{ x";
  for (int i = 0; i < 100000; ++i) chain += "|trim";
  EXPECT_NE(error_of(chain + " }}").find("nested too deeply"), std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(l=[]) %}{% for i in range(5000) %}"
                     "{% set n.l = [n.l] %}{% endfor %}")
                .find("nested more than"),
            std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(l=[]) %}{% for i in range(99) %}"
                     "{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}")
                .find("more than 1000000 elements"),
            std::string::npos);
  EXPECT_EQ(rendered("{% set n = namespace() %}{% set n.n = n %}x"), "x");  // a cycle is freed
}

TEST(Template, TheDateIsTheGivenOne) {
  std::tm date{};
  date.tm_year = 126;
  date.tm_mon = 0;
  date.tm_mday = 31;
  EXPECT_EQ(Template("{{ strftime_now('%d %b %Y') }}", "t").render(Tree::object(), date).text,
            "31 Jan 2026");
}

}  // namespace
}  // namespace tessera::jinja
