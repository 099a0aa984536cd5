// Tensor-core products of large sizes: tiles of 128 by 256, 8 warps of 64 by 64, one block on a multiprocessor.
#include "matmul_write.h"

using Large = Tile<128, 256, 64, 2, 4>;

MATMULS_TENSOR(matmul_large, Large, 1, f16)
MATMULS_TENSOR(matmul_large, Large, 1, bf16)
