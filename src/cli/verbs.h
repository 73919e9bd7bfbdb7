// The verbs of the program: one table, one file a verb.
#pragma once

#include <span>
#include <string>

#include "cli/arguments.h"

namespace tessera::cli {

struct Verb {
  const char *name, *group, *summary, *example;
  int (*run)(Args args);  // what follows the verb's name; returns 0 (ok) or 1 (the world is wrong)
};

// In the order of the help.
std::span<const Verb> verbs();
const char* version();

// Runs args[0] among `among`; `path` ("", or "data" for `tessera data build`) stands before it in
// messages. Prints the list of verbs for --help. Throws UsageError, naming the nearest verb.
int run_verb(const std::string& path, std::span<const Verb> among, Args args);

int verb_tokenizer(Args args);
int verb_data(Args args);
int data_explain(Args args);  // `tessera data explain`
int verb_train(Args args);
int verb_compile(Args args);
int verb_verify(Args args);
int verb_launch(Args args);
int verb_submit(Args args);
int verb_eval(Args args);
int verb_generate(Args args);
int verb_checkpoint(Args args);
int checkpoint_average(Args args);  // verbs of it with a file of their own
int checkpoint_merge(Args args);
int verb_bench(Args args);
int verb_config(Args args);
int verb_doctor(Args args);
int verb_plan(Args args);
int verb_tune(Args args);
int verb_report(Args args);
int verb_watch(Args args);

}  // namespace tessera::cli
