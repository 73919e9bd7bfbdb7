// Small queries and edits that several block passes share.
#pragma once

#include <vector>

#include "ir/program.h"

namespace tessera::compile {

// Returns the number of ops in the list that read v.
int readers(const std::vector<Op>& ops, ValueId v);
// Returns the index of the op in the list that writes v, or -1.
int writer(const std::vector<Op>& ops, ValueId v);
// Replaces every read of `from` by a read of `to`.
void replace_reads(std::vector<Op>& ops, ValueId from, ValueId to);
// Adds a value like v with another name and no buffer.
ValueId clone_value(Graph& graph, ValueId v, const std::string& suffix);
// Adds such a value that is a copy of v, named after the purpose of the copy.
ValueId copy_value(Graph& graph, ValueId v, CopyKind copy);
// Sets the dtypes of an op's outputs to those that its rule infers from the inputs.
void infer_types(Graph& graph, const Op& op);

}  // namespace tessera::compile
