// The commands of the program: one table, and one file per command.
#pragma once

#include <span>
#include <string>

#include "cli/arguments.h"

namespace tessera::cli {

struct Verb {
  const char *name, *group, *summary, *example;
  int (*run)(Args args);  // gets the arguments after the command's name; returns the exit code
};

// Returns all commands in the order of the help.
std::span<const Verb> verbs();
const char* version();
// Returns the commit that the program was built from: "1a2b3c4d5e6f", with "-dirty" if files
// differed from it; "" without Git.
const char* commit();
// Returns "0.1.0 (commit 1a2b3c4d5e6f)", or only the version.
std::string version_and_commit();

// Runs the command args[0] of `among` and returns its exit code. `path` is its prefix in messages:
// "", or "data" for `tessera data build`. Prints the list of commands for --help. Throws UsageError
// that names the nearest command.
int run_verb(const std::string& path, std::span<const Verb> among, Args args);

int verb_tokenizer(Args args);
int verb_data(Args args);
int data_explain(Args args);      // `tessera data explain`
int data_render(Args args);       // `tessera data render`
int tokenizer_info(Args args);    // `tessera tokenizer info`
int tokenizer_decode(Args args);  // `tessera tokenizer decode`
int verb_train(Args args);
int verb_finetune(Args args);
int verb_compile(Args args);
int verb_verify(Args args);
int verb_check_coordinates(Args args);
int verb_launch(Args args);
int verb_submit(Args args);
int verb_eval(Args args);
int verb_generate(Args args);
int verb_chat(Args args);
int verb_serve(Args args);
int verb_checkpoint(Args args);
int checkpoint_average(Args args);  // subcommands of `checkpoint` with their own files
int checkpoint_merge(Args args);
int verb_bench(Args args);
int verb_config(Args args);
int verb_doctor(Args args);
int verb_plan(Args args);
int verb_tune(Args args);
int verb_sweep(Args args);
int verb_report(Args args);
int verb_watch(Args args);

}  // namespace tessera::cli
