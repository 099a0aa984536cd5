// Cast from float types; see cast.h.
#include "cast.h"

CASTS(f32)
CASTS(f64)
CASTS(f16)
CASTS(bf16)
