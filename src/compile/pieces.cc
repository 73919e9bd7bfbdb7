#include "compile/pieces.h"

namespace tessera {
namespace {

ValueId find(const Program& p, const std::string& name) {
  for (size_t i = 0; i < p.values.size(); ++i)
    if (p.values[i].name == name) return static_cast<ValueId>(i);
  return kNone;
}

StatePiece piece(const Program& p, const std::string& name, ValueId value, int64_t layer) {
  const Shape& s = p[value].shape;
  return {name, value, layer, kNone, std::vector<int64_t>(s.dims().size(), 0), s.dims()};
}

}  // namespace

std::vector<StatePiece> pieces(const Program& program) {
  std::vector<StatePiece> out;
  for (const Frame& f : program.frames)
    for (const ValueId v : program.kind(f.kind).values) {
      const Value& weight = program[v];
      if (weight.role != Role::kWeight) continue;
      const std::string name = full_name(weight, f.layer);
      const int64_t layer = f.layer == kNone ? 0 : f.layer;
      const ValueId master = find(program, weight.name + ".master");
      out.push_back(piece(program, name, master == kNone ? v : master, layer));
      if (master != kNone) out.back().copy = v;
      for (const char* moment : {"moment1", "moment2"}) {
        const ValueId m = find(program, weight.name + "." + moment);
        if (m != kNone) out.push_back(piece(program, name + "|" + moment, m, layer));
      }
    }
  return out;
}

}  // namespace tessera
