// Element-wise operations of Bool; see elementwise.h.
#include "elementwise.h"

MAPS_ANY(b8, u8)
MAP2(mul_b8, And, b8, b8, u8)
MAP2(logical_and_b8, And, b8, b8, u8)
MAP2(logical_or_b8, Or, b8, b8, u8)
MAP2(logical_xor_b8, Xor, b8, b8, u8)
