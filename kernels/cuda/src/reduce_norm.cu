// Norms, the count of what is not 0, and the logarithm of a sum of exponentials; see reduce.h.
#include "reduce.h"

#define COUNT(T, C)                                                                                                   \
    using Nonzero_##T = Nonzero<C>;                                                                                   \
    REDUCE(count_nonzero_##T, Nonzero_##T, i64, T)

#define NORMS(T, C)                                                                                                   \
    using Norm1_##T = Norm1<C>;                                                                                       \
    using Norm2_##T = Norm2<C>;                                                                                       \
    using MeanSquare_##T = MeanSquare<C>;                                                                              \
    using NormMax_##T = NormMax<C>;                                                                                   \
    using NormMin_##T = NormMin<C>;                                                                                   \
    using LogSumExp_##T = LogSumExp<C>;                                                                               \
    REDUCE(norm1_##T, Norm1_##T, T, T)                                                                                \
    REDUCE(norm2_##T, Norm2_##T, T, T)                                                                                \
    REDUCE(mean_square_##T, MeanSquare_##T, T, T)                                                                     \
    REDUCE(norm_max_##T, NormMax_##T, T, T)                                                                           \
    REDUCE(norm_min_##T, NormMin_##T, T, T)                                                                           \
    REDUCE(logsumexp_##T, LogSumExp_##T, T, T)                                                                        \
    COUNT(T, C)

NORMS(f32, f32)
NORMS(f64, f64)
NORMS(f16, f32)
NORMS(bf16, f32)
COUNT(i64, i64)
COUNT(i32, i32)
COUNT(u8, u8)
COUNT(b8, u8)
