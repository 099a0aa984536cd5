// Element-wise operations of one type; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(u8, u8)
MAPS_NUMBER(u8, u8, i64)
MAPS_INTEGER(u8, u8)
