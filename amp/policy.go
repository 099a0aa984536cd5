package amp

import "fmt"

// Class says what autocast does with the arguments of an operation.
type Class uint8

// The classes. The zero Class is that of operations of which the policy says nothing.
const (
	Untouched      Class = iota // runs in the types of its arguments
	LowerPrecision              // eligible arguments are converted to the region's type
	Float32                     // eligible arguments are converted to float32
	Float32Result               // like Float32; PyTorch asks for a float32 result instead, with the same numbers
	WidestInput                 // eligible arguments are converted to float32 if one of them is, else to the region's type
	Banned                      // refused: its result cannot be trusted in lower precision
)

var classText = [...]string{
	Untouched:      "untouched",
	LowerPrecision: "lower precision",
	Float32:        "float32",
	Float32Result:  "float32 result",
	WidestInput:    "widest input",
	Banned:         "banned",
}

// String is the class in words.
func (c Class) String() string {
	if int(c) < len(classText) {
		return classText[c]
	}
	return fmt.Sprintf("Class(%d)", uint8(c))
}

// policy is what PyTorch's autocast does on CUDA devices (aten/src/ATen/autocast_mode.h), under autograd's names; where these
// differ from PyTorch's, the comment says so. It is the same on every device, so that a program computes the same numbers and
// takes the same memory on all of them: PyTorch's lists for the processor are other ones.
var policy = map[string]Class{
	// Matrix products: the work that tensor cores do. The products are summed in float32 and rounded once.
	"linear":      LowerPrecision,
	"linear_bias": LowerPrecision, // linear
	"matmul":      LowerPrecision,

	// Attention is two of them, with a softmax between that is computed in float32.
	"scaled_dot_product_attention":        LowerPrecision,
	"scaled_dot_product_attention_packed": LowerPrecision, // its operands in one tensor

	// Functions whose results leave the range of float16, or lose all digits there.
	"exp":        Float32,
	"log":        Float32,
	"pow":        Float32,
	"pow_scalar": Float32, // pow with a number
	"reciprocal": Float32,
	"rsqrt":      Float32,
	"softplus":   Float32,

	// Losses: sums over many elements.
	"binary_cross_entropy_with_logits": Float32,
	"cross_entropy":                    Float32, // log_softmax, then nll_loss
	"huber_loss":                       Float32,
	"kl_div":                           Float32,
	"l1_loss":                          Float32,
	"mse_loss":                         Float32,
	"nll_loss":                         Float32,
	"smooth_l1_loss":                   Float32,

	// A loss of probabilities, of which lower precision leaves too little.
	"binary_cross_entropy": Banned,

	// Sums over elements, which PyTorch lets return float32.
	"log_softmax": Float32Result,
	"softmax":     Float32Result,
	"sum":         Float32Result,

	// Element-wise operations, which are bound by memory: the narrower the better. Those with several arguments promote by
	// themselves.
	"abs": Untouched, "add": Untouched, "add_scalar": Untouched, "clamp": Untouched, "cos": Untouched, "div": Untouched,
	"div_scalar": Untouched, "dropout": Untouched, "maximum": Untouched, "minimum": Untouched, "mul": Untouched,
	"mul_scalar": Untouched, "neg": Untouched, "sin": Untouched, "sqrt": Untouched, "sub": Untouched, "sub_scalar": Untouched,
	"where": Untouched,

	// Activations other than softplus and softmax.
	"gelu": Untouched, "gelu_tanh": Untouched, "leaky_relu": Untouched, "relu": Untouched, "sigmoid": Untouched,
	"silu": Untouched, "tanh": Untouched,

	// Reductions other than sum. The kernels sum in float32 and round once, so that a mean keeps its digits.
	"amax": Untouched, "amin": Untouched, "mean": Untouched, "std": Untouched, "var": Untouched,

	// Comparisons, and what else gives no floating-point numbers.
	"argmax": Untouched, "argmin": Untouched, "eq": Untouched, "ge": Untouched, "gt": Untouched, "le": Untouched,
	"lt": Untouched, "ne": Untouched,

	// What moves elements, or only looks at them in another way. cat and stack promote by themselves.
	"cat": Untouched, "contiguous": Untouched, "expand": Untouched, "flatten": Untouched, "index_select": Untouched,
	"narrow": Untouched, "permute": Untouched, "reshape": Untouched, "select": Untouched, "slice": Untouched,
	"squeeze": Untouched, "stack": Untouched, "t": Untouched, "transpose": Untouched, "unsqueeze": Untouched, "view": Untouched,

	// A conversion that was asked for, and a function whose operations are cast for themselves.
	"checkpoint": Untouched,
	"to":         Untouched,
}

// peers are PyTorch's other names in the lists: operations that autograd does not have (yet), so that each has its class from
// its first day.
var peers = map[Class]string{
	LowerPrecision: `
		_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
		cudnn_convolution cudnn_convolution_transpose prelu addmm addmv addr einsum mm mv linalg_vecdot addbmm baddbmm bmm
		chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _thnn_fused_lstm_cell
		_thnn_fused_gru_cell`,
	Float32: `
		acos asin cosh erfinv expm1 log10 log2 log1p sinh tan layer_norm native_layer_norm rms_norm group_norm frobenius_norm
		nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss2d hinge_embedding_loss
		margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
		multi_margin_loss dist pdist cdist renorm logsumexp upsample_nearest1d upsample_nearest2d upsample_nearest3d
		_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
		_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa`,
	Float32Result: `prod cumprod cumsum linalg_vector_norm linalg_matrix_norm norm`,
	WidestInput: `
		addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add`,
}
