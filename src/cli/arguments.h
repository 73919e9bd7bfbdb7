// The arguments of one command, declared once for parsing, checking and --help.
//
//   std::string checkpoint, prompt;
//   bool json = false;
//   Arguments arguments("generate", "Continue a text.", "tessera generate runs/x --prompt 'The'");
//   arguments.required(checkpoint, "CHECKPOINT", "a run directory or a checkpoint");
//   arguments.option(prompt, "--prompt", "TEXT", "the text to continue");
//   arguments.json(json);
//   if (!arguments.parse(args)) return 0;  // --help was printed
//
// The variables contain the defaults and must outlive parse().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera::cli {

using Args = std::span<const std::string>;

class Arguments {
 public:
  Arguments(std::string verb, std::string summary, std::string example);
  ~Arguments();

  // Declare positional arguments, in the order of these calls; only the last may be many().
  void required(std::string& value, const char* name, const char* help);
  void optional(std::string& value, const char* name, const char* help);
  void many(std::vector<std::string>& values, const char* name, const char* help, int at_least = 0);

  // Declare an option. `name` is its spelling, such as "--to"; `of` names its value in the help.
  // must = true: it is required. A list option may be repeated. The help prints the default of
  // `value`, unless it is a negative number, which means that the option is not given.
  void option(std::string& value, const char* name, const char* of, const char* help,
              bool must = false);
  void option(int64_t& value, const char* name, const char* of, const char* help,
              bool must = false);
  void option(double& value, const char* name, const char* of, const char* help, bool must = false);
  void option(std::vector<std::string>& values, const char* name, const char* of, const char* help,
              bool must = false);
  void flag(bool& value, const char* name, const char* help);
  void json(bool& value);  // --json, with its standard help

  // Parses the arguments. Returns false if --help was requested and printed; the command then
  // returns. Throws UsageError.
  bool parse(Args args);
  bool given(const char* name) const;  // after parse(): whether the option was given
  std::string help() const;

 private:
  struct Parser;  // hides the types of CLI11
  std::unique_ptr<Parser> parser_;
};

// ---- The option --force: commands replace existing files only with it (data/source_list.h).

// Adds the option --force.
void add_force(Arguments& arguments, bool& force);

}  // namespace tessera::cli
