// The keys that a task's templates use, computed from a line of the dataset as it is published.
//
// A task file lists them as "NAME = EXPRESSION", where the expression is Jinja's (jinja/template.h)
// and its variables are the keys of the line:
//
//   published: ["query = 'Question: ' + question", "choices = choices.text"]
//   replace: ["\\[.*?\\] => "]        # regular expression => text, in the texts that `published`
//   computes
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/tree.h"

namespace tessera::eval {

class PublishedKeys {
 public:
  // Throws Error that quotes the entry if one is not of these forms, or cannot be parsed.
  PublishedKeys(const std::vector<std::string>& published, const std::vector<std::string>& replace);
  ~PublishedKeys();
  PublishedKeys(const PublishedKeys&) = delete;
  PublishedKeys& operator=(const PublishedKeys&) = delete;

  // Returns true if `line` is as published: it lacks the first of the computed keys.
  bool apply_to(const Tree& line) const;
  // Returns the line with the computed keys, which replace keys of the same name. Throws Error that
  // starts with `place` if an expression fails, for example because the line lacks a key.
  Tree computed(const Tree& line, const std::string& place) const;
  // Returns the names that the expressions read, sorted, for messages.
  std::string needed() const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace tessera::eval
