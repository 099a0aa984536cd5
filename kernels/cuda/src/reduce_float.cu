// Reductions of float types; see reduce.h.
#include "reduce.h"

REDUCE_NUMBER(f32, f32)
REDUCE_FLOAT(f32, f32)
REDUCE_NUMBER(f64, f64)
REDUCE_FLOAT(f64, f64)
REDUCE_NUMBER(f16, f32)
REDUCE_FLOAT(f16, f32)
REDUCE_NUMBER(bf16, f32)
REDUCE_FLOAT(bf16, f32)
