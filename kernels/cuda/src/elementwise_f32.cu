// Element-wise operations of one type; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(f32, f32)
MAPS_NUMBER(f32, f32, f64)
MAPS_FLOAT(f32, f32, f64)
