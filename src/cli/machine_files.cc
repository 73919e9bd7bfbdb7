#include "cli/machine_files.h"

#include "base/error.h"
#include "base/shipped_configs.h"

namespace tessera::cli {
namespace {

struct NamedText {
  std::string source, text;
};

NamedText find(const std::string& name, std::string_view folder) {
  if (std::filesystem::is_regular_file(name)) return {name, read_file(name)};
  if (const ShippedConfig* c = shipped_config(folder, name))
    return {fmt::format("{}/{}.yaml", folder, name), std::string(c->text)};
  throw Error("'{}' is neither a file nor one of the {} that the program contains: {}", name,
              folder, shipped_names(folder));
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
