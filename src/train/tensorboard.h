// TensorBoard event files: curves that `tensorboard --logdir RUN` shows.
//
// A file is a row of records (TFRecord): u64 length, u32 masked CRC-32C of the length, the bytes
// of one Event (a protobuf message), u32 masked CRC-32C of the bytes; little endian. The first
// event says "brain.Event:2". Every start of a run opens a new file, whose name sorts behind the
// older ones, since TensorBoard reads a folder in the order of names; after a resume its second
// event is a session start that carries the first step of the new session, and TensorBoard forgets
// what older files say of that step and later ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/append_file.h"

namespace tessera::train {

// CRC-32C (Castagnoli), and in the masked form that TFRecord stores: rotated right by 15, plus a
// constant.
uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

// One record of a file, framed.
std::string tfrecord(std::string_view payload);

class TensorBoardFile {
 public:
  using Scalar = std::pair<std::string_view, double>;  // tag, value

  // Makes `folder` where there is none, and a new file in it, as a best effort
  // (base/append_file.h). `first_step` is the first step that will be written; `wall_time_s` counts
  // from 1970.
  TensorBoardFile(const Path& folder, int64_t first_step, double wall_time_s);

  // One event with all scalars of a step, in one write(2).
  void add(int64_t step, double wall_time_s, std::span<const Scalar> scalars);

  const Path& path() const { return file_.path(); }
  std::optional<std::string> take_report() { return file_.take_report(); }

 private:
  AppendFile file_;
};

}  // namespace tessera::train
