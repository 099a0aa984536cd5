// Element-wise operations of one type, computed in float; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(f16, f32)
MAPS_NUMBER(f16, f32, f64)
MAPS_FLOAT(f16, f32, f64)
