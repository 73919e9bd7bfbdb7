// Turns on the verification after each pass in every test program that compiles.
#include "compile/passes.h"

namespace tessera {
namespace {

[[maybe_unused]] const bool kOn = (compile::verify_after_each_pass(true), true);

}  // namespace
}  // namespace tessera
