package amp

import (
	"fmt"
	"maps"
)

// Class says what autocast does with the arguments of an operation.
type Class uint8

// The classes. The zero Class is that of operations of which the policy says nothing.
const (
	Untouched      Class = iota // runs in the types of its arguments
	LowerPrecision              // eligible arguments are converted to the region's type
	Float32                     // eligible arguments are converted to float32
	Float32Result               // like Float32; PyTorch asks for a float32 result instead, with the same numbers
	Float32Inside               // computes in float32 by itself, and returns that: the numbers of Float32 without a copy in float32
	WidestInput                 // eligible arguments are converted to float32 if one of them is, else to the region's type
	Banned                      // refused: its result cannot be trusted in lower precision
)

var classText = [...]string{
	Untouched:      "untouched",
	LowerPrecision: "lower precision",
	Float32:        "float32",
	Float32Result:  "float32 result",
	Float32Inside:  "float32 inside",
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
var policy = withTable(map[string]Class{
	// Matrix products: the work that tensor cores do. The products are summed in float32 and rounded once.
	"addmm":       LowerPrecision,
	"baddbmm":     LowerPrecision,
	"bmm":         LowerPrecision,
	"einsum":      LowerPrecision,
	"linear":      LowerPrecision,
	"linear_bias": LowerPrecision, // linear
	"matmul":      LowerPrecision,
	"lstm":        LowerPrecision, // _cudnn_rnn, whose inputs and weights PyTorch casts
	"lstm_bias":   LowerPrecision,
	"gru":         LowerPrecision,
	"gru_bias":    LowerPrecision,

	// Convolutions, likewise. PyTorch has no names of their own for those with a bias.
	"conv1d": LowerPrecision, "conv1d_bias": LowerPrecision, "conv2d": LowerPrecision, "conv2d_bias": LowerPrecision,
	"conv_transpose1d": LowerPrecision, "conv_transpose1d_bias": LowerPrecision,
	"conv_transpose2d": LowerPrecision, "conv_transpose2d_bias": LowerPrecision,
	// Attention is two of them, with a softmax between that is computed in float32.
	"scaled_dot_product_attention":        LowerPrecision,
	"scaled_dot_product_attention_packed": LowerPrecision, // its operands in one tensor
	"mm":                                  LowerPrecision,
	"mv":                                  LowerPrecision,

	// Functions whose results leave the range of float16, or lose all digits there.
	"logsumexp":   Float32,
	"rdiv_scalar": Float32, // reciprocal, then a product
	"rpow_scalar": Float32, // pow of a number

	// Normalisations of rows: moments of many elements.
	"group_norm":        Float32,
	"group_norm_affine": Float32, // group_norm with a weight and a bias, and likewise below
	"group_norm_weight": Float32,
	"layer_norm":        Float32,
	"layer_norm_affine": Float32,
	"layer_norm_weight": Float32,
	"rms_norm":          Float32,
	"rms_norm_weight":   Float32,
	// Resampling, whose results lie between elements.
	"upsample_bilinear2d": Float32,
	"upsample_nearest2d":  Float32,

	// Losses: sums over many elements.
	"binary_cross_entropy_with_logits": Float32,
	"cross_entropy":                    Float32Inside, // log_softmax and nll_loss in one kernel; PyTorch converts the logits for it
	"huber_loss":                       Float32,
	"kl_div":                           Float32,
	"l1_loss":                          Float32,
	"mse_loss":                         Float32,
	"nll_loss":                         Float32,
	"smooth_l1_loss":                   Float32,

	// A loss of probabilities, of which lower precision leaves too little.
	"binary_cross_entropy": Banned,

	// Sums over elements, which PyTorch lets return float32.
	"cumprod":     Float32Result,
	"cumsum":      Float32Result,
	"log_softmax": Float32Result,
	"norm":        Float32Result,
	"prod":        Float32Result,
	"softmax":     Float32Result,
	"sum":         Float32Result,

	// Operations of several arguments that do not promote by themselves.
	"dot":       WidestInput,
	"tensordot": WidestInput,

	// Element-wise operations, which are bound by memory: the narrower the better. Those with several arguments promote by
	// themselves. Most are in policy_gen.go.
	"dropout": Untouched, "fmod_scalar": Untouched, "lerp_scalar": Untouched, "masked_fill": Untouched, "outer": Untouched,
	"remainder_scalar": Untouched, "rsub_scalar": Untouched, "sub_scalar": Untouched, "where": Untouched, "where_scalar": Untouched, "rwhere_scalar": Untouched,
	"bitwise_and_scalar": Untouched, "bitwise_or_scalar": Untouched, "bitwise_xor_scalar": Untouched, "bitwise_left_shift_scalar": Untouched, "bitwise_right_shift_scalar": Untouched,

	// Operations in place keep the type of what they change.
	"add_": Untouched, "add_scalar_": Untouched, "clamp_": Untouched, "div_": Untouched, "lerp_": Untouched, "lerp_scalar_": Untouched, "masked_fill_": Untouched,
	"mul_": Untouched, "mul_scalar_": Untouched, "sub_": Untouched,

	// Reductions other than sum. The kernels sum in float32 and round once, so that a mean keeps its digits.
	"amax": Untouched, "amin": Untouched, "mean": Untouched, "std": Untouched, "var": Untouched, "max": Untouched,
	"min": Untouched,

	// Normalisations of channels: the kernels compute in float32, and weights and statistics may be float32 beside half precision.
	"batch_norm": Untouched, "batch_norm_affine": Untouched, "batch_norm_weight": Untouched, "instance_norm": Untouched,
	"instance_norm_affine": Untouched, "instance_norm_weight": Untouched,

	// Operations with indices or masks. The sums of half precision are rounded once. scatter_add takes one type.
	"embedding": Untouched, "embedding_bag": Untouched, "gather": Untouched, "index_add": Untouched, "one_hot": Untouched,
	"scatter": Untouched, "scatter_value": Untouched, "take_along_dim": Untouched,
	"scatter_add": WidestInput,
	// Pooling. The kernels sum in float32 and round once.
	"adaptive_avg_pool1d": Untouched, "adaptive_avg_pool2d": Untouched, "adaptive_max_pool1d": Untouched,
	"adaptive_max_pool2d": Untouched, "avg_pool1d": Untouched, "avg_pool2d": Untouched, "max_pool1d": Untouched,
	"max_pool2d": Untouched,

	// Comparisons, and what else gives no floating-point numbers.
	"argmax": Untouched, "argmin": Untouched, "all": Untouched, "any": Untouched, "argsort": Untouched, "count_nonzero": Untouched,
	"eq_scalar": Untouched, "ge_scalar": Untouched, "gt_scalar": Untouched, "le_scalar": Untouched, "lt_scalar": Untouched, "ne_scalar": Untouched,

	// What moves elements, or only looks at them in another way. cat and stack promote by themselves.
	"cat": Untouched, "contiguous": Untouched, "to_memory_format": Untouched, "expand": Untouched, "flatten": Untouched, "index_select": Untouched,
	"narrow": Untouched, "permute": Untouched, "reshape": Untouched, "select": Untouched, "slice": Untouched,
	"squeeze": Untouched, "stack": Untouched, "t": Untouched, "transpose": Untouched, "unsqueeze": Untouched, "view": Untouched,
	"diag_embed": Untouched, "diagonal": Untouched, "flip": Untouched, "movedim": Untouched, "pad": Untouched, "repeat": Untouched,
	"repeat_interleave": Untouched, "roll": Untouched, "rotary_embedding": Untouched, "sort": Untouched, "topk": Untouched, "tril": Untouched, "triu": Untouched,

	// A conversion that was asked for, and a function whose operations are cast for themselves.
	"checkpoint": Untouched,
	"to":         Untouched,
})

// withTable adds what policy_gen.go has.
func withTable(p map[string]Class) map[string]Class {
	maps.Copy(p, tablePolicy)
	return p
}

// peers are PyTorch's other names in the lists: operations that autograd does not have (yet), so that each has its class from
// its first day.
var peers = map[Class]string{
	LowerPrecision: `
		_convolution conv3d conv_tbc conv_transpose3d convolution
		cudnn_convolution cudnn_convolution_transpose addmv addr linalg_vecdot addbmm
		chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _thnn_fused_lstm_cell
		_thnn_fused_gru_cell`,
	Float32: `
		native_layer_norm frobenius_norm
		nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss2d hinge_embedding_loss
		margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
		multi_margin_loss dist pdist cdist renorm upsample_nearest1d upsample_nearest3d
		_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d
		_upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa`,
	Float32Result: `linalg_vector_norm linalg_matrix_norm`,
	WidestInput: `
		bilinear cross vdot grid_sampler index_put`,
}
