#include "compile/context.h"

namespace tessera {

Context context_of(const CompileRequest& asked, const Target& target) {
  Context c = {asked, {}, zero_plan(asked.layout), target};
  CompileRequest& r = c.request;
  if (!c.trains()) r.model.dropout = r.model.attention_dropout = r.model.embedding_dropout = 0;
  c.recompute = parse_recompute(r.layout.recompute, r.model.all_layers());
  return c;
}

}  // namespace tessera
