// Cast from integer types and Bool; see cast.h.
#include "cast.h"

CASTS(i64)
CASTS(i32)
CASTS(u8)
CASTS(b8)
