// Element-wise operations of Bool; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(b8, u8)
MAPS_BOOL(b8, u8)
