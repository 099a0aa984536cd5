// Element-wise operations of one type; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(i64, i64)
MAPS_NUMBER(i64, i64, i64)
MAPS_INTEGER(i64, i64)
