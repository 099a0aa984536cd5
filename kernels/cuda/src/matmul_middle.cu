// Tensor-core products of middle sizes: tiles of 128 by 128, 4 warps of 64 by 64, two blocks on a multiprocessor.
#include "matmul_write.h"

using Middle = Tile<128, 128, 32, 2, 2>;

MATMULS_TENSOR(matmul_middle, Middle, 2, f16)
MATMULS_TENSOR(matmul_middle, Middle, 2, bf16)
