// Parses the arguments of a command with CLI11, and prints its help. Numbers, messages and the help
// text are our own.
#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/config.h"
#include "config/foreign_keys.h"

namespace tessera::cli {
namespace {

// One line of the help: an option or argument, and its description.
struct Line {
  std::string left, help;
};

// Returns batch.micro=4 for --batch.micro=4, and an empty text if the argument is not a run-file
// key.
std::string key_with_dashes(const std::string& argument) {
  const size_t begin = argument.find_first_not_of('-');
  if (!argument.starts_with("-") || begin == argument.npos) return "";
  const std::string key = argument.substr(begin);
  const size_t equals = key.find('=');
  if (key.substr(0, equals).find('.') == key.npos) return "";
  return equals == key.npos ? key + "=VALUE" : key;
}

// Options that earlier versions had under another name.
constexpr std::pair<std::string_view, std::string_view> kRenamedOptions[] = {
    {"--silence", "--heartbeat-timeout"}, {"--on-loss", "--on-failure"},
    {"--at-once", "--parallel"},          {"--leave", "--grace"},
    {"--more", "--launcher-args"},        {"--starter", "--launcher"},
    {"--rank-files", "--log-dir"}};

// Returns the present name of a renamed option that is among `names`; empty if there is none.
std::string renamed_option(std::string_view option, std::span<const std::string> names) {
  for (const auto& [old, present] : kRenamedOptions)
    if (old == option && std::find(names.begin(), names.end(), present) != names.end())
      return std::string(present);
  return {};
}

// Reads a finite decimal number. Returns false for other texts, such as octal or hexadecimal
// numbers.
template <class T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T read = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(read)) return false;
  value = read;
  return true;
}

// Aligns the descriptions of all lines in one column.
std::string columns(const std::vector<Line>& lines) {
  size_t width = 0;
  for (const Line& l : lines) width = std::max(width, l.left.size());
  std::string out;
  for (const Line& l : lines) out += fmt::format("  {:{}}  {}\n", l.left, width, l.help);
  return out;
}

}  // namespace

struct Arguments::Parser {
  CLI::App app;
  std::string verb, summary, example, usage;
  std::vector<Line> positionals, options;
  std::vector<std::string> names;
  std::vector<Line> numbers;  // options with a number as value, and the expected kind of number
  std::vector<const char*> paths;  // options with a path as value
  bool takes_keys = false;         // accepts overrides of run-file keys

  // Returns a message for a wrong number of values: an option without a value, or one that is
  // repeated.
  std::string mismatch(Args args, const std::string& otherwise) const {
    for (const CLI::Option* o : app.get_options()) {
      const std::string name = o->get_name();
      const auto times = std::count_if(args.begin(), args.end(), [&](const std::string& a) {
        return a == name || a.starts_with(name + "=");
      });
      if (times > 1 && o->get_expected_max() == 1)
        return fmt::format("{} is given {} times, expected at most once.", name, times);
      const auto at = std::find(args.begin(), args.end(), name);
      if (at != args.end() && (at + 1 == args.end() || (at + 1)->starts_with("--")))
        return fmt::format("{} has no value.", name);
    }
    return otherwise;
  }

  template <class T>
  void add_option(T& value, const char* name, const char* of, const char* help, bool must) {
    const bool has_default = !must && !CLI::detail::to_string(value).empty();
    std::string text = help;
    if constexpr (std::is_arithmetic_v<T>) {
      // The library would also accept octal and hexadecimal numbers (010 as eight), so read_number
      // reads numbers.
      const CLI::callback_t read = [&value](const CLI::results_t& given) {
        return read_number(given.back(), value);
      };
      app.add_option(name, read)->required(must);
      if (has_default && value >= 0) text += fmt::format(" (default {})", value);
      numbers.push_back({name, std::is_integral_v<T> ? "an integer (digits only)"
                                                     : "a number, such as 0.1 or 1e-3"});
    } else {
      CLI::Option* o = app.add_option(name, value)->required(must);
      if constexpr (std::is_same_v<T, std::vector<std::string>>) o->allow_extra_args(false);
      if constexpr (std::is_same_v<T, std::string>)
        if (has_default) text += fmt::format(" (default {})", value);
    }
    if (must) usage += fmt::format(" {} {}", name, of);
    options.push_back({fmt::format("{} {}", name, of), text});
    names.emplace_back(name);
  }
};

Arguments::Arguments(std::string verb, std::string summary, std::string example)
    : parser_(std::make_unique<Parser>()) {
  parser_->verb = std::move(verb);
  parser_->summary = std::move(summary);
  parser_->example = std::move(example);
  parser_->app.set_help_flag();
  parser_->app.allow_extras();
  parser_->names.emplace_back("--help");
}

Arguments::~Arguments() = default;

void Arguments::required(std::string& value, const char* name, const char* help) {
  parser_->app.add_option(name, value)->required();
  parser_->usage += fmt::format(" {}", name);
  parser_->positionals.push_back({name, help});
}

void Arguments::optional(std::string& value, const char* name, const char* help) {
  parser_->app.add_option(name, value);
  parser_->usage += fmt::format(" [{}]", name);
  parser_->positionals.push_back({name, help});
}

void Arguments::many(std::vector<std::string>& values, const char* name, const char* help,
                     int at_least) {
  // The library does not allow '=' in a name, so "key=value" is used only in the help.
  CLI::Option* o = parser_->app.add_option(at_least > 0 ? name : "rest", values);
  if (at_least > 0) o->required()->expected(at_least, CLI::detail::expected_max_vector_size);
  parser_->takes_keys = parser_->takes_keys || std::string_view(name) == "key=value";
  parser_->usage += at_least > 0 ? fmt::format(" {} …", name) : fmt::format(" [{} …]", name);
  parser_->positionals.push_back({name, help});
}

void Arguments::option(std::string& value, const char* name, const char* of, const char* help,
                       bool must) {
  parser_->add_option(value, name, of, help, must);
  constexpr std::array<std::string_view, 4> kPaths{"FILE", "DIR", "CHECKPOINT", "PREFIX"};
  if (std::ranges::find(kPaths, of) != kPaths.end()) parser_->paths.push_back(name);
}
void Arguments::option(int64_t& value, const char* name, const char* of, const char* help,
                       bool must) {
  parser_->add_option(value, name, of, help, must);
}
void Arguments::option(double& value, const char* name, const char* of, const char* help,
                       bool must) {
  parser_->add_option(value, name, of, help, must);
}
void Arguments::option(std::vector<std::string>& values, const char* name, const char* of,
                       const char* help, bool must) {
  parser_->add_option(values, name, of, help, must);
}

void Arguments::flag(bool& value, const char* name, const char* help) {
  parser_->app.add_flag(name, value);
  parser_->options.push_back({name, help});
  parser_->names.emplace_back(name);
}

void Arguments::json(bool& value) {
  flag(value, "--json", "print only one JSON object on standard output");
}

bool Arguments::parse(Args args) {
  for (const std::string& a : args) {
    if (a == "--") break;
    if (a != "--help" && a != "-h") continue;
    fmt::print("{}", help());
    return false;
  }
  const auto fail = [&](const std::string& why) {
    throw UsageError("{}: {}\nUsage: tessera {}{} [option …]   (tessera {} --help)", parser_->verb,
                     why, parser_->verb, parser_->usage, parser_->verb);
  };
  try {
    // The library expects the arguments in reverse order.
    parser_->app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ConversionError& e) {
    for (const Line& n : parser_->numbers)
      if (const size_t at = std::string_view(e.what()).find(n.left + " = ");
          at != std::string::npos)
        fail(fmt::format("{}: expected {}", e.what() + at, n.help));
    fail(e.what());
  } catch (const CLI::ArgumentMismatch& e) {
    fail(parser_->mismatch(args, e.what()));
  } catch (const CLI::ParseError& e) {
    fail(e.what());
  }
  for (const char* const name : parser_->paths)
    if (const CLI::Option& o = *parser_->app.get_option(name);
        o.count() > 0 && o.as<std::string>().empty())
      fail(fmt::format("{} is empty, expected a path", name));
  // Reports unknown arguments, with the nearest known option or, for a run-file key, with its
  // correct spelling.
  if (const std::vector<std::string> rest = parser_->app.remaining(); !rest.empty()) {
    const std::string& first = rest.front();
    if (const std::string key = key_with_dashes(first); !key.empty())
      fail(fmt::format("'{}' is not an option. Write run-file keys without --: {}", first, key));
    const std::string option = first.substr(0, first.find('='));
    if (const std::string present = renamed_option(option, parser_->names); !present.empty())
      fail(fmt::format("'{}' is not an option (renamed): use {}", option, present));
    if (parser_->takes_keys && option.starts_with("--"))
      if (const std::string advice = config::foreign_key_advice(option); !advice.empty())
        fail(fmt::format("'{}' is not an option {}. Write run-file keys without --: KEY=VALUE",
                         option, advice));
    const std::string guess = nearest(first, parser_->names);
    fail(fmt::format("unknown argument '{}'.{}", first,
                     guess.empty() ? "" : fmt::format(" Did you mean '{}'?", guess)));
  }
  return true;
}

bool Arguments::given(const char* name) const { return parser_->app.count(name) > 0; }

std::string Arguments::help() const {
  const Parser& p = *parser_;
  std::string out =
      fmt::format("{}\n\nUsage: tessera {}{} [option …]\n", p.summary, p.verb, p.usage);
  if (!p.positionals.empty()) out += "\n" + columns(p.positionals);
  std::vector<Line> options = p.options;
  options.push_back({"--help", "print this help"});
  out += "\nOptions:\n" + columns(options);
  return out + fmt::format("\nExample:\n  {}\n", p.example);
}

void add_force(Arguments& arguments, bool& force) {
  arguments.flag(force, "--force", "replace existing files");
}

}  // namespace tessera::cli
