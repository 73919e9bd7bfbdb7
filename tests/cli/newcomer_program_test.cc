// Messages that a first look at the program needs: which checkpoint is used, where a file was
// looked for, what a run directory has.
#include "tests/cli/held_program.h"

namespace tessera {
namespace {

class FirstLook : public TinyRun {};

TEST_F(FirstLook, OneThingIsSingular) {
  put("one.txt", "the quick brown fox\n");
  ASSERT_EQ(run("data build --tokenizer t.json --out one one.txt").code, 0);
  expect_in(run("data inspect one").out, {"one: 1 document, "});
  expect_in(run("train run.yaml", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1").err,
            {"the layout has 1 rank (data 1"});
}

}  // namespace
}  // namespace tessera
