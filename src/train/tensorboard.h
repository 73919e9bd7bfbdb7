// TensorBoard event files: curves that `tensorboard --logdir RUN` shows.
//
// A file is a sequence of records (TFRecord), little endian: u64 length, u32 masked CRC-32C of the
// length, the bytes of one Event (a protobuf message), u32 masked CRC-32C of the bytes. The first
// event is the version "brain.Event:2". Each start of a run creates a new file, whose name sorts
// after the older ones, since TensorBoard reads a directory in the order of names. Its second event
// is a session start with the first step of the new session: TensorBoard then discards that step
// and later ones of older files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/append_file.h"

namespace tessera::train {

// Returns the CRC-32C (Castagnoli), plain or in the masked form that TFRecord stores: rotated right
// by 15 bits, plus a constant.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// Returns a record with its frame.
std::string tfrecord(std::string_view payload);

class TensorBoardFile {
 public:
  using Scalar = std::pair<std::string, double>;  // tag, value

  // Creates a new file in `folder`, and `folder` if it is missing, as a best effort
  // (base/append_file.h). `first_step` is the first step that will be written; `wall_time_s` is in
  // seconds since 1970; `owned`: see AppendFile.
  TensorBoardFile(const Path& folder, int64_t first_step, double wall_time_s,
                  std::function<bool()> owned = nullptr);

  // Appends one event with all scalars of a step, in one write(2).
  void add(int64_t step, double wall_time_s, std::span<const Scalar> scalars);

  const Path& path() const { return file_.path(); }
  std::optional<std::string> take_report() { return file_.take_report(); }

 private:
  AppendFile file_;
};

}  // namespace tessera::train
