// Reads evaluation tasks: a YAML file with templates, and JSON lines of examples that fill them. If
// a key of a line is a list, it has one text per option.
#include "eval/task.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/shipped_configs.h"
#include "base/tree.h"
#include "data/instruction_template.h"

namespace tessera::eval {
namespace {

std::string text_of(const Tree& value) {
  return value.as_string() != nullptr ? *value.as_string() : to_json(value);
}

// The templates of a task.
struct Forms {
  data::InstructionTemplate form, response, answer;
  // `response` and `answer` contain only names, so {response} is appended to them: the text before
  // it is then the whole template.
  explicit Forms(const TaskSpec& spec)
      : form(spec.form),
        response(spec.response + "{response}"),
        answer(spec.answer + "{response}") {}
};

// One line of the file: an object whose lists have one entry per option.
class Line {
 public:
  Line(const Tree& tree, std::string place) : tree_(tree), place_(std::move(place)) {
    if (tree_.as_members() == nullptr) throw Error("{}: expected one JSON object per line", place_);
  }

  const std::string& place() const { return place_; }

  const Tree& at(const std::string& key) const {
    if (const Tree* found = tree_.find(key)) return *found;
    std::string keys;
    for (const auto& [name, value] : *tree_.as_members())
      keys += (keys.empty() ? "'" : ", '") + name + "'";
    throw Error("{}: there is no '{}'; the object has {}", place_, key,
                keys.empty() ? "no key" : keys);
  }

  // Returns the number of options that the lists among these keys have: 1 if none is a list.
  size_t options(const Forms& forms) const {
    size_t n = 1;
    std::string from;
    for (const data::InstructionTemplate* t : {&forms.form, &forms.response})
      for (const std::string& name : t->names()) {
        const Tree::List* list = at(name).as_list();
        if (list == nullptr) continue;
        if (list->empty())
          throw Error("{}: '{}' is an empty list, expected one entry per option", place_, name);
        if (!from.empty() && list->size() != n)
          throw Error("{}: '{}' has {} entries, but '{}' has {}; expected equal numbers", place_,
                      name, list->size(), from, n);
        n = list->size();
        from = name;
      }
    return n;
  }

  std::string fill(const data::InstructionTemplate& form, size_t option) const {
    return form.before([&](const std::string& name) {
      const Tree& value = at(name);
      const Tree::List* list = value.as_list();
      if (list != nullptr && option >= list->size())
        throw Error("{}: '{}' has {} entries, expected at least {}", place_, name, list->size(),
                    option + 1);
      return text_of(list == nullptr ? value : (*list)[option]);
    });
  }

  int64_t gold(const std::string& key, size_t options) const {
    const Tree& value = at(key);
    const auto* number = std::get_if<int64_t>(&value.value);
    if (number == nullptr || *number < 0 || *number >= static_cast<int64_t>(options))
      throw Error("{}: '{}' is {}, expected the index of an option, 0 to {}", place_, key,
                  to_json(value), options - 1);
    return *number;
  }

 private:
  const Tree& tree_;
  std::string place_;
};

// Returns the limit on the total bytes of the texts of all options of a file. Each option repeats
// the context, so a list of many options could multiply the size of the file.
size_t most_bytes(size_t file_bytes) { return (size_t{1} << 26) + 100 * file_bytes; }

// Builds one example. Subtracts the bytes of its options from `left`; throws Error if they exceed
// it.
Example read_example(const TaskSpec& spec, const Forms& forms, const Line& line, size_t& left) {
  Example e;
  const size_t options = line.options(forms);
  for (size_t i = 0; i < options; ++i) {
    e.options.push_back({line.fill(forms.form, i), line.fill(forms.response, i)});
    const size_t bytes = e.options.back().context.size() + e.options.back().response.size();
    if (bytes > left)
      throw Error(
          "{}: with option {} of {}, the texts of all options exceed 64 MiB plus 100 times the "
          "size of the file. Shorten the context or the list of options.",
          line.place(), i + 1, options);
    left -= bytes;
  }
  if (spec.kind == TaskKind::kChoice) e.gold = line.gold(spec.gold, options);
  if (spec.kind == TaskKind::kExactMatch) e.answer = line.fill(forms.answer, 0);
  return e;
}

// Returns the solved examples before example `own`: the first ones of the file except itself.
std::string shots_before(const std::vector<Example>& all, size_t own, const TaskSpec& spec) {
  std::string out;
  int64_t left = spec.shots;
  for (size_t i = 0; i < all.size() && left > 0; ++i) {
    if (i == own) continue;
    const Option& right = all[i].options[all[i].gold];
    out += right.context + right.response + spec.shot_separator;
    --left;
  }
  return out;
}

}  // namespace

namespace {

// Throws Error if the number of solved examples is out of range. Each example has its own copy of
// them, so they multiply the size of the file.
void check_shots(int64_t shots, const std::string& source) {
  constexpr int64_t kMostShots = 1000;
  if (shots < 0 || shots > kMostShots)
    throw Error("{}: shots is {}, expected 0 to {}", source, shots, kMostShots);
}

// Returns the task of that name that the program contains, or null if there is none, or if a file
// has that name.
const ShippedConfig* shipped_task(const Path& file) {
  std::error_code error;
  if (std::filesystem::exists(file, error) || error) return nullptr;
  return shipped_config("tasks", file.string());
}

}  // namespace

bool is_task(const Path& file) {
  std::error_code error;
  return shipped_task(file) != nullptr || std::filesystem::exists(file, error) || error;
}

TaskSpec read_task(const Path& file) {
  const ShippedConfig* shipped = shipped_task(file);
  const std::string text = shipped ? std::string(shipped->text) : read_file(file);
  const std::string source = shipped ? fmt::format("tasks/{}.yaml", shipped->name) : file.string();
  TaskSpec spec;
  SourceLocations places;
  try {
    read_fields(fields_of(spec), parse_yaml(text, source), source, places);
  } catch (const Error& e) {
    throw Error("{}\n  The file is read as a task file (docs/evaluation.md).", e.what());
  }
  const auto require = [&](bool is_there, const char* key) {
    if (is_there) return;
    throw Error("{}: a task of kind {} requires '{}'", source, name_of_entry(spec.kind), key);
  };
  require(!spec.data.empty(), "data");
  require(!spec.form.empty(), "form");
  require(!spec.response.empty(), "response");
  require(spec.kind != TaskKind::kChoice || !spec.gold.empty(), "gold");
  require(spec.kind != TaskKind::kExactMatch || !spec.answer.empty(), "answer");
  check_shots(spec.shots, source);
  if (spec.max_tokens < 1)
    throw Error("{}: max_tokens is {}, expected 1 or more", source, spec.max_tokens);
  try {
    const Forms forms(spec);
    const AnswerPattern extract(spec.extract);
  } catch (const std::exception& e) {
    throw Error("{}: {}", source, e.what());
  }
  return spec;
}

std::vector<Example> read_examples(const TaskSpec& spec, const Path& data) {
  const Forms forms(spec);
  std::vector<Example> out;
  const std::string text = read_file(data);
  size_t left = most_bytes(text.size());
  for (const Tree& tree : parse_json_lines(text, data.string())) {
    const Line line(tree, fmt::format("{}:{}", data.string(), tree.line));
    out.push_back(read_example(spec, forms, line, left));
    out.back().line = tree.line;
  }
  if (out.empty())
    throw Error("{}: has no example, expected one JSON object per line", data.string());
  std::vector<std::string> shots;
  // All shots are built before any context is changed, since they consist of contexts.
  for (size_t i = 0; i < out.size(); ++i) shots.push_back(shots_before(out, i, spec));
  for (size_t i = 0; i < out.size(); ++i)
    for (Option& o : out[i].options) o.context = shots[i] + o.context;
  return out;
}

namespace {

// Returns the file of a task's examples. Throws Error that explains how to get them if it does not
// exist.
Path examples_of(const TaskSpec& spec, const std::string& task, const std::string& folder) {
  const Path from = folder.empty() ? Path(task).parent_path() : Path(folder);
  const Path file = from / spec.data;
  std::error_code error;
  if (std::filesystem::exists(file, error) || error) return file;
  std::set<std::string> keys;
  if (!spec.gold.empty()) keys.insert(spec.gold);
  const Forms forms(spec);
  for (const data::InstructionTemplate* t : {&forms.form, &forms.response, &forms.answer})
    for (const std::string& name : t->names())
      if (name != "response") keys.insert(name);
  throw Error(
      "task {}: its examples are not included in Tessera, and {} does not exist. Save them there "
      "as JSON lines with the keys {} (docs/evaluation.md), or name the folder that has {} (--data "
      "FOLDER, in a run file evaluation.data).",
      task, std::filesystem::absolute(file, error).string(), fmt::join(keys, ", "), spec.data);
}

}  // namespace

std::vector<Task> read_tasks(const TaskChoice& choice) {
  std::vector<Task> tasks;
  for (const std::string& file : choice.files) {
    Task& t = tasks.emplace_back();
    t.name = Path(file).stem().string();
    t.spec = read_task(file);
    if (choice.shots >= 0) t.spec.shots = choice.shots;
    check_shots(t.spec.shots, file);
    t.examples = read_examples(t.spec, examples_of(t.spec, file, choice.folder));
    if (choice.examples > 0 && choice.examples < std::ssize(t.examples))
      t.examples.resize(choice.examples);
  }
  return tasks;
}

// ---- Matches with RE2, which compiles an expression to an automaton: it neither recurses nor
// backtracks, so no expression or text causes exponential time.

namespace {

constexpr size_t kLongestPattern = 4096;  // bytes

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

}  // namespace

struct AnswerPattern::Compiled {
  RE2 expression;
};

AnswerPattern::AnswerPattern(const std::string& expression) {
  if (expression.size() > kLongestPattern)
    throw Error("the regular expression has {} bytes, expected at most {}", expression.size(),
                kLongestPattern);
  compiled_.reset(new Compiled{RE2(expression, quiet())});
  if (!compiled_->expression.ok())
    throw Error("the regular expression '{}' cannot be used: {}", expression,
                compiled_->expression.error());
}

AnswerPattern::~AnswerPattern() = default;

std::string AnswerPattern::find(std::string_view text) const {
  // Group 0 is the whole match, group 1 the first group of the expression.
  const int groups = std::min(compiled_->expression.NumberOfCapturingGroups(), 1);
  re2::StringPiece found[2];
  const re2::StringPiece all(text.data(), text.size());
  if (!compiled_->expression.Match(all, 0, all.size(), RE2::UNANCHORED, found, groups + 1))
    return "";
  const re2::StringPiece& answer = found[groups];
  return answer.data() == nullptr ? "" : std::string(answer.data(), answer.size());
}

}  // namespace tessera::eval
