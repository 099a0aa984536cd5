// Element-wise operations of one type; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(i32, i32)
MAPS_NUMBER(i32, i32, i64)
MAPS_INTEGER(i32, i32)
