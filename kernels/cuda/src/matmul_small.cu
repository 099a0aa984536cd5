// Tensor-core products of small sizes: tiles of 64 by 64, 4 warps of 32 by 32.
#include "matmul_write.h"

using Small = Tile<64, 64, 64, 2, 2>;

MATMULS_TENSOR(matmul_small, Small, 4, f16)
MATMULS_TENSOR(matmul_small, Small, 4, bf16)
