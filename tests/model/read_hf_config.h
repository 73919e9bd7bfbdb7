// Reads a config.json from text, for tests.
#pragma once

#include <string>

#include "base/config.h"
#include "base/error.h"
#include "model/hf_config.h"

namespace tessera::model {

inline ModelConfig read(const std::string& text) {
  return model_from_hf_config(parse_json(text, "config.json"), "config.json");
}

inline std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::model
