// Element-wise operations of one type; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(f64, f64)
MAPS_NUMBER(f64, f64, f64)
MAPS_FLOAT(f64, f64, f64)
