// The progress of a long command on standard error (standard output is for the result): on a
// terminal, one line that is rewritten five times per second; otherwise a line every 30 s.
#pragma once

#include <string>

namespace tessera::cli {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  // erases the line
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Returns whether a line may be shown now. Never true in the first second off a terminal, so that
  // short commands print none.
  bool is_due() const;
  void show(const std::string& line);
  void erase();            // erases the line on a terminal, so that results can be printed
  double seconds() const;  // since construction

 private:
  bool terminal_, shown_ = false;
  double began_s_, next_s_ = 0;
};

}  // namespace tessera::cli
