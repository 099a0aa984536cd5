// Element-wise operations of one type, computed in float; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(bf16, f32)
MAPS_NUMBER(bf16, f32, f64)
MAPS_FLOAT(bf16, f32, f64)
