// case: exploit
// problem: rmsnorm_h4096
// language: cpp
// hardware: cpu
// family: compile
// caught-by: compiles
// verdict: compile_error
//
// Has the assembler include a file of the host, whose text would then stand in the error message or in the object.
#include "canary.h"
#include "rms.h"

#define QUOTED(text) #text
#define INCLUDE(file) asm(".include \"" file "\"")
INCLUDE(KY_CANARY_FILE);

KERNEL(x, w, y, n) {
    rms::rows(x, w, y, 0, n);
    return 0;
}
