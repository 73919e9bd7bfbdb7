// The command line of one verb, declared once: parsing, checking and --help come from it.
//
//   std::string checkpoint, prompt;
//   bool json = false;
//   Arguments arguments("generate", "Continues a text.", "tessera generate runs/x --prompt 'The'");
//   arguments.required(checkpoint, "CHECKPOINT", "a run directory or a checkpoint");
//   arguments.option(prompt, "--prompt", "TEXT", "what to continue");
//   arguments.flag(json, "--json", "one JSON object on standard output");
//   if (!arguments.parse(args)) return 0;  // --help was printed
//
// The variables hold the defaults and must outlive parse().
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

  // Positional, in the order of these calls; only the last may take many.
  void required(std::string& value, const char* name, const char* help);
  void optional(std::string& value, const char* name, const char* help);
  void many(std::vector<std::string>& values, const char* name, const char* help, int at_least = 0);

  // `name` is "--to"; an option that must be given has must = true. A list may be given repeatedly.
  void option(std::string& value, const char* name, const char* of, const char* help,
              bool must = false);
  void option(int64_t& value, const char* name, const char* of, const char* help,
              bool must = false);
  void option(double& value, const char* name, const char* of, const char* help, bool must = false);
  void option(std::vector<std::string>& values, const char* name, const char* of, const char* help,
              bool must = false);
  void flag(bool& value, const char* name, const char* help);
  void json(bool& value);  // --json, with its usual help

  // False: --help was asked for and printed, the verb has nothing to do. Throws UsageError.
  bool parse(Args args);
  bool given(const char* name) const;  // after parse(): whether this option stood on the line
  std::string help() const;

 private:
  struct Parser;  // the library's types stay in arguments.cc
  std::unique_ptr<Parser> parser_;
};

// ---- The option --force: commands replace existing files only with it (data/source_list.h).

// Adds the option --force.
void add_force(Arguments& arguments, bool& force);

}  // namespace tessera::cli
