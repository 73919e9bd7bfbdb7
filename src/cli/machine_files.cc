#include "cli/machine_files.h"

#include "base/error.h"

namespace tessera::cli {
namespace {

struct NamedText {
  std::string source, text;
};

NamedText find(const std::string& name, std::string_view folder) {
  if (std::filesystem::is_regular_file(name)) return {name, read_file(name)};
  std::string known;
  for (const ShippedConfig& c : shipped_configs()) {
    if (c.folder != folder) continue;
    if (c.name == name) return {fmt::format("{}/{}.yaml", folder, name), std::string(c.text)};
    known += fmt::format(" {}", c.name);
  }
  throw Error("'{}' is neither a file nor one of the {} that the program contains:{}", name, folder,
              known);
}

}  // namespace

plan::Hardware open_cluster(const std::string& name, std::span<const std::string> overrides) {
  const NamedText file = find(name, "clusters");
  return plan::read_hardware(parse_yaml(file.text, file.source), file.source, overrides);
}

plan::Software open_software(const std::string& name) {
  const NamedText file = find(name, "software");
  return plan::read_software(parse_yaml(file.text, file.source), file.source, {});
}

}  // namespace tessera::cli
