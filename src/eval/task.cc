// Reads evaluation tasks: a YAML file with templates, and JSON lines of examples that fill them. If
// a key of a line is a list, it has one text per option.
#include "eval/task.h"

#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/tree.h"
#include "data/instruction_template.h"
#include "data/parquet_file.h"
#include "eval/published_keys.h"
#include "eval/task_names.h"

namespace tessera::eval {
namespace {

std::string text_of(const Tree& value) {
  return value.as_string() != nullptr ? *value.as_string() : to_json(value);
}

// The templates of a task.
struct Forms {
  data::InstructionTemplate form, response, answer, description;
  PublishedKeys published;
  // `response` and others contain only names, so {response} is appended to them: the text before
  // it is then the whole template.
  explicit Forms(const TaskSpec& spec)
      : form(spec.form),
        response(spec.response + "{response}"),
        answer(spec.answer + "{response}"),
        description(spec.description + "{response}"),
        published(spec.published, spec.replace) {}
};

// One line of the file: an object whose lists have one entry per option.
class Line {
 public:
  Line(const Tree& tree, const Forms& forms, std::string place) : place_(std::move(place)) {
    if (tree.as_members() == nullptr) throw Error("{}: expected one JSON object per line", place_);
    tree_ = forms.published.apply_to(tree) ? forms.published.computed(tree, place_) : tree;
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
  Tree tree_;
  std::string place_;
};

// Returns the limit on the total bytes of the texts of all options of a file. Each option repeats
// the context, so a list of many options could multiply the size of the file.
size_t most_bytes(size_t file_bytes) { return (size_t{1} << 26) + 100 * file_bytes; }

struct ReadExample {
  Example example;
  std::string description;
};

// Builds one example. Subtracts the bytes of its options from `left`; throws Error if they exceed
// it.
ReadExample read_example(const TaskSpec& spec, const Forms& forms, const Line& line, size_t& left) {
  ReadExample read;
  Example& e = read.example;
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
  if (!spec.subset_key.empty()) e.subset = text_of(line.at(spec.subset_key));
  read.description = line.fill(forms.description, 0);
  return read;
}

// Reads the examples of a file without their shots.
std::vector<ReadExample> read_file_of(const TaskSpec& spec, const Path& data) {
  const Forms forms(spec);
  std::vector<ReadExample> out;
  const data::DataFile file(data);
  size_t left = most_bytes(static_cast<size_t>(file.size()));
  const auto add = [&](const Tree& tree) {
    const Line line(tree, forms, fmt::format("{}:{}", data.string(), tree.line));
    out.push_back(read_example(spec, forms, line, left));
    out.back().example.line = tree.line;
  };
  if (data::named_parquet(data.string())) {
    data::ParquetFile table(data.string());
    for (Tree row; table.next(row);) add(row);
  } else {
    for (const Tree& tree : parse_json_lines(read_file(data), data.string())) add(tree);
  }
  if (out.empty())
    throw Error("{}: has no example, expected one JSON object per line", data.string());
  return out;
}

// Returns the solved examples before an example: the first ones of `pool` of the same subset except
// `own` itself (null: it is not in the pool).
std::string shots_before(const std::vector<ReadExample>& pool, const Example& example,
                         const Example* own, const TaskSpec& spec) {
  std::string out;
  int64_t left = spec.shots;
  for (size_t i = 0; i < pool.size() && left > 0; ++i) {
    const Example& shot = pool[i].example;
    if (&shot == own || shot.subset != example.subset) continue;
    const Option& right = shot.options[shot.gold];
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

}  // namespace

TaskSpec parse_task(const FoundTask& found) {
  const std::string& source = found.source;
  TaskSpec spec;
  SourceLocations places;
  try {
    read_fields(fields_of(spec), parse_yaml(found.text, source), source, places);
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
    for (const std::string& pattern : {spec.extract, spec.extract_last}) AnswerPattern{pattern};
    for (const std::string& pattern : spec.ignore_patterns) AnswerPattern{pattern};
  } catch (const std::exception& e) {
    throw Error("{}: {}", source, e.what());
  }
  return spec;
}

TaskSpec read_task(const Path& file) { return parse_task(find_task(file.string())); }

std::vector<Example> read_examples(const TaskSpec& spec, const Path& data, const Path& shots_from) {
  std::vector<ReadExample> all = read_file_of(spec, data);
  const bool other = spec.shots > 0 && !shots_from.empty();
  const std::vector<ReadExample> others =
      other ? read_file_of(spec, shots_from) : std::vector<ReadExample>();
  std::vector<std::string> before;
  // All shots are built before any context is changed, since they consist of contexts.
  for (const ReadExample& e : all)
    before.push_back(e.description + (other ? shots_before(others, e.example, nullptr, spec)
                                            : shots_before(all, e.example, &e.example, spec)));
  std::vector<Example> out;
  for (size_t i = 0; i < all.size(); ++i) {
    for (Option& o : all[i].example.options) o.context = before[i] + o.context;
    out.push_back(std::move(all[i].example));
  }
  return out;
}

namespace {

// Keeps the examples of one subset. Throws Error that lists the subsets if there is none.
void keep_subset(std::vector<Example>& examples, const std::string& subset, const std::string& task,
                 const Path& data) {
  std::set<std::string> found;
  for (const Example& e : examples) found.insert(e.subset);
  std::erase_if(examples, [&](const Example& e) { return e.subset != subset; });
  if (examples.empty())
    throw Error("task {}: {} has no example of '{}'. It has {}.", task, data.string(), subset,
                fmt::join(found, ", "));
}

}  // namespace

std::vector<Task> read_tasks(const TaskChoice& choice) {
  std::vector<Task> tasks;
  std::set<std::tuple<std::string, std::string, std::string>> known;
  for (const std::string& file : choice.files) {
    const FoundTask found = find_task(file);
    if (!known.emplace(found.source, found.text, found.subset).second) continue;
    Task& t = tasks.emplace_back();
    t.name = found.name;
    t.spec = parse_task(found);
    if (choice.shots >= 0) t.spec.shots = choice.shots;
    check_shots(t.spec.shots, file);
    const Path data = find_examples(t.spec, file, choice.folder);
    Path shots;
    if (t.spec.shots > 0 && !t.spec.shot_data.empty()) {
      TaskSpec of_shots = t.spec;
      of_shots.data = t.spec.shot_data;
      of_shots.aliases.clear();
      // The command that downloads the dataset gets the questions of the test, not these.
      of_shots.dataset.clear();
      shots = find_examples(of_shots, Path(file).parent_path() / t.spec.shot_data, choice.folder);
    }
    t.examples = read_examples(t.spec, data, shots);
    if (!found.subset.empty()) keep_subset(t.examples, found.subset, t.name, data);
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

std::string AnswerPattern::find_last(std::string_view text) const {
  const re2::StringPiece all(text.data(), text.size());
  re2::StringPiece found, last;
  for (size_t from = 0; from <= all.size();) {
    if (!compiled_->expression.Match(all, from, all.size(), RE2::UNANCHORED, &found, 1)) break;
    // Each alternative has a group, and only one group matches: the whole match is the answer.
    last = found;
    from = found.data() - all.data() + std::max<size_t>(found.size(), 1);
  }
  return last.data() == nullptr ? "" : std::string(last.data(), last.size());
}

void AnswerPattern::remove_from(std::string& text) const {
  RE2::GlobalReplace(&text, compiled_->expression, "");
}

}  // namespace tessera::eval
