// Reductions of integers and Bool; see reduce.h.
#include "reduce.h"

REDUCE_NUMBER(i64, i64)
REDUCE_INTEGER(i64)
REDUCE_NUMBER(i32, i32)
REDUCE_INTEGER(i32)
REDUCE_NUMBER(u8, u8)
REDUCE_INTEGER(u8)
using Sum_b8 = IntSum<u8>;
REDUCE(sum_b8, Sum_b8, i64, b8)
REDUCE(any_b8, MaxU8, b8, b8)
REDUCE(all_b8, All, b8, b8)
