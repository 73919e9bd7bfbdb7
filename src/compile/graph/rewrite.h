// Small questions and edits that several block passes share.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera::compile {

// How many ops of the list read v.
int readers(const std::vector<Op>& ops, ValueId v);
// The op of the list that writes v, or -1.
int writer(const std::vector<Op>& ops, ValueId v);
// Every read of `from` becomes a read of `to`.
void replace_reads(std::vector<Op>& ops, ValueId from, ValueId to);
// A value like v with another name and no frame.
ValueId clone_value(Graph& graph, ValueId v, const std::string& suffix);
// The same as a copy of v, named after what it is for.
ValueId copy_value(Graph& graph, ValueId v, CopyKind copy);

}  // namespace tessera::compile
