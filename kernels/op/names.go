package op

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/cistern-ml/cistern/device/dtype"
)

// types is a set of element types, one bit for each.
type types uint16

const (
	floats   types = 1<<dtype.Float32 | 1<<dtype.Float64 | 1<<dtype.Float16 | 1<<dtype.BFloat16
	halves   types = 1<<dtype.Float16 | 1<<dtype.BFloat16
	integers types = 1<<dtype.Int64 | 1<<dtype.Int32 | 1<<dtype.Uint8
	boolean  types = 1 << dtype.Bool
	numbers        = floats | integers
	anything       = numbers | boolean
)

func (t types) has(d dtype.DType) bool { return d.Valid() && t&(1<<d) != 0 }

// rule is how the shapes of a call's views belong together; see check.go.
type rule uint8

const (
	elementwise rule = iota
	sequence         // one dimension
	contiguous       // random numbers
	reduction
	argReduction // reduction of the one dimension I[0]
	matMul
	matMulAct
	linearWeightGrad
	rows // element-wise shapes, at least one dimension
	nll
	nllGrad
	crossEntropy
	crossEntropyGrad
	attention
	attentionGrad
	indexSelect
	indexAdd
	steps // of an optimizer
	ampUnscale
	castMany
	gradNorm
	clipNorm
	clipValue
	cell     // of a recurrent layer
	single   // views of one element
	sorting  // rows with two outputs of one shape, which may have shorter rows than the input
	matrices // element-wise shapes, at least two dimensions
	gather
	scatter
	norm
	conv2d
	conv2dGradInput
	conv2dGradWeight
	pool   // one view is the image, the other the windows' results
	sample // likewise
	bag
)

// spec is the machine-readable part of an operation's specification. out and in have a letter for each view: k the key
// type, b Bool, i Int64, j Int32, d Float64, s the type that sums of the key type have, c the type that it is computed with, m the key
// type or Bool, x any type (or one that the rule checks), and * groups of the key type. What stands behind a ? is there or not.
type spec struct {
	name    string
	out, in string
	types   types // of the key view
	rule    rule
}

// specs are those of all operations.
var specs = withTable([Count]spec{
	Fill:      {"fill", "k", "", anything, elementwise},
	Copy:      {"copy", "k", "k", anything, elementwise},
	Cast:      {"cast", "x", "k", anything, elementwise},
	CastMany:  {"cast_many", "*", "*", halves, castMany},
	Arange:    {"arange", "k", "", numbers, sequence},
	Uniform:   {"uniform", "k", "?i", floats, contiguous},
	Normal:    {"normal", "k", "?i", floats, contiguous},
	Bernoulli: {"bernoulli", "k", "?i", floats | boolean, contiguous},
	Dropout:   {"dropout", "k", "k?i", floats, contiguous},

	Where: {"where", "k", "bkk", anything, elementwise},

	AddMixed: {"add_mixed", "c", "kc", halves, contiguous},

	SquaredError: {"squared_error", "k", "kk", floats, elementwise},
	SmoothL1:     {"smooth_l1", "k", "kk", floats, elementwise},
	BCE:          {"bce", "k", "kk", floats, elementwise},
	BCELogits:    {"bce_logits", "k", "kk", floats, elementwise},
	KLDiv:        {"kl_div", "k", "kk", floats, elementwise},

	SquaredErrorGrad: {"squared_error_backward", "k", "kkk", floats, elementwise},
	SmoothL1Grad:     {"smooth_l1_backward", "k", "kkk", floats, elementwise},
	BCEGrad:          {"bce_backward", "k", "kkk", floats, elementwise},
	BCELogitsGrad:    {"bce_logits_backward", "k", "kkk", floats, elementwise},
	KLDivGrad:        {"kl_div_backward", "k", "kkk", floats, elementwise},

	Sum:    {"sum", "s", "k", anything, reduction},
	Mean:   {"mean", "k", "k", floats, reduction},
	Prod:   {"prod", "s", "k", numbers, reduction},
	Max:    {"amax", "k", "k", numbers, reduction},
	Min:    {"amin", "k", "k", numbers, reduction},
	ArgMax: {"argmax", "i", "k", numbers, argReduction},
	ArgMin: {"argmin", "i", "k", numbers, argReduction},
	Any:    {"any", "k", "k", boolean, reduction},
	All:    {"all", "k", "k", boolean, reduction},

	Norm1:        {"norm1", "k", "k", floats, reduction},
	Norm2:        {"norm2", "k", "k", floats, reduction},
	MeanSquare:   {"mean_square", "k", "k", floats, reduction},
	NormMax:      {"norm_max", "k", "k", floats, reduction},
	NormMin:      {"norm_min", "k", "k", floats, reduction},
	CountNonzero: {"count_nonzero", "i", "k", anything, reduction},
	LogSumExp:    {"logsumexp", "k", "k", floats, reduction},

	MatMul:    {"matmul", "k", "kkk", floats, matMul},
	MatMulAct: {"matmul_activation", "k?k", "kkk", floats, matMulAct},

	LinearWeightGrad: {"linear_backward_weight", "c?c", "kk", floats, linearWeightGrad},

	Softmax:        {"softmax", "k", "k", floats, rows},
	SoftmaxGrad:    {"softmax_backward", "k", "kk", floats, rows},
	LogSoftmax:     {"log_softmax", "k", "k", floats, rows},
	LogSoftmaxGrad: {"log_softmax_backward", "k", "kk", floats, rows},
	NLL:            {"nll_loss", "k", "ki", floats, nll},
	NLLGrad:        {"nll_loss_backward", "k", "ki", floats, nllGrad},

	Conv2D:           {"conv2d", "k", "kkk", floats, conv2d},
	Conv2DGradInput:  {"conv2d_backward_input", "k", "kkk", floats, conv2dGradInput},
	Conv2DGradWeight: {"conv2d_backward_weight", "k", "kk", floats, conv2dGradWeight},

	MaxPool2D:     {"max_pool2d", "kx", "k", floats, pool},
	MaxPool2DGrad: {"max_pool2d_backward", "k", "kx", floats, pool},
	AvgPool2D:     {"avg_pool2d", "k", "k", floats, pool},
	AvgPool2DGrad: {"avg_pool2d_backward", "k", "k", floats, pool},

	UpsampleNearest2D:      {"upsample_nearest2d", "k", "k", floats, sample},
	UpsampleNearest2DGrad:  {"upsample_nearest2d_backward", "k", "k", floats, sample},
	UpsampleBilinear2D:     {"upsample_bilinear2d", "k", "k", floats, sample},
	UpsampleBilinear2DGrad: {"upsample_bilinear2d_backward", "k", "k", floats, sample},
	CrossEntropy:           {"cross_entropy", "ccc", "ki?k", floats, crossEntropy},
	CrossEntropyGrad:       {"cross_entropy_backward", "k", "ckic?k", floats, crossEntropyGrad},

	Attention:     {"attention", "kc", "kkk?m", floats, attention},
	AttentionGrad: {"attention_backward", "kkk?k", "kkkkkc?m", floats, attentionGrad},

	CumSum:      {"cumsum", "s", "k", anything, rows},
	CumProd:     {"cumprod", "s", "k", anything, rows},
	CumProdGrad: {"cumprod_backward", "k", "kkk", floats, rows},
	Sort:        {"sort", "ki", "k", anything, sorting},
	TopK:        {"topk", "ki", "k", anything, sorting},
	Tril:        {"tril", "k", "k", anything, matrices},
	Triu:        {"triu", "k", "k", anything, matrices},

	IndexSelect: {"index_select", "k", "ki", anything, indexSelect},
	IndexAdd:    {"index_add", "k", "ki", floats, indexAdd},

	Gather:     {"gather", "k", "ki", anything, gather},
	Scatter:    {"scatter", "k", "ki", anything, scatter},
	ScatterAdd: {"scatter_add", "k", "ki", floats, scatter},

	EmbeddingBag:     {"embedding_bag", "k*", "kii", floats, bag},
	EmbeddingBagGrad: {"embedding_bag_backward", "k", "kii*", floats, bag},

	RowNorm:         {"row_norm", "*", "*", floats, norm},
	RowNormGrad:     {"row_norm_backward", "*", "*", floats, norm},
	NormSums:        {"norm_sums", "cc", "*", floats, norm},
	ChannelStats:    {"channel_stats", "c*", "k", floats, norm},
	ChannelNorm:     {"channel_norm", "*", "*", floats, norm},
	ChannelNormGrad: {"channel_norm_backward", "*", "*", floats, norm},

	SGDStep:     {"sgd_step", "*", "*", floats, steps},
	AdamStep:    {"adam_step", "*", "*", floats, steps},
	RMSPropStep: {"rmsprop_step", "*", "*", floats, steps},
	AdagradStep: {"adagrad_step", "*", "*", floats, steps},
	LionStep:    {"lion_step", "*", "*", floats, steps},

	GradNorm:  {"grad_norm", "d", "*", floats, gradNorm},
	ClipNorm:  {"clip_grad_norm", "*", "d", floats, clipNorm},
	ClipValue: {"clip_grad_value", "*", "", floats, clipValue},

	LSTMCell:     {"lstm_cell", "kkk", "k", floats, cell},
	LSTMCellGrad: {"lstm_cell_backward", "kk", "kkkkkk", floats, cell},
	GRUCell:      {"gru_cell", "kkk", "kk", floats, cell},
	GRUCellGrad:  {"gru_cell_backward", "kkk", "kkkkk", floats, cell},

	AmpUnscale:     {"amp_unscale", "*", "k", floats, ampUnscale},
	AmpUpdateScale: {"amp_update_scale", "kj", "k", 1 << dtype.Float32, single},
})

// withTable adds those of elementwise_gen.go.
func withTable(s [Count]spec) [Count]spec {
	copy(s[firstOfTable:], tableSpecs[:])
	return s
}

// String is the operation's name in PyTorch's manner: "add", "relu_backward".
func (id ID) String() string {
	if !id.Valid() {
		return fmt.Sprintf("op(%d)", uint16(id))
	}
	return specs[id].name
}

// Valid reports whether id is one of the operations of this package.
func (id ID) Valid() bool { return id != Invalid && int(id) < Count }

// Arity is the number of output and input views. variable is set where the number of views depends on the call: MatMul's
// third input, the bias of convolutions, weights of CrossEntropy and masks of Attention are optional (out and in are then the
// largest numbers), and optimizers, clipping and AmpUnscale take groups, normalisations and bags optional views (out and in are 0).
func (id ID) Arity() (out, in int, variable bool) {
	if !id.Valid() {
		return 0, 0, false
	}
	s := &specs[id]
	if s.out == "*" || s.in == "*" || s.rule == norm || s.rule == bag {
		return 0, 0, true
	}
	_, most := arity(s.out)
	least, all := arity(s.in)
	return most, all, s.rule == matMul || s.rule == linearWeightGrad || s.biased() || least < all
}

// Types lists the types of the key view for which the specification asks for a kernel.
func (id ID) Types() []dtype.DType {
	if !id.Valid() {
		return nil
	}
	t := specs[id].types
	list := make([]dtype.DType, 0, bits.OnesCount16(uint16(t)))
	for _, d := range dtype.All() {
		if t.has(d) {
			list = append(list, d)
		}
	}
	return list
}

// Elementwise reports whether the operation computes each element of its output from the elements of its inputs in the same
// place, so that the output may be the memory of an input.
func (id ID) Elementwise() bool {
	return id.Valid() && specs[id].rule == elementwise
}

// Key is the type that selects the kernel: that of the first output where the outputs have the type of the computation,
// else (Cast, Not, comparisons, reductions) that of the first input. It is Invalid for a call without that view.
func (c *Call) Key() dtype.DType {
	if !c.Op.Valid() {
		return dtype.Invalid
	}
	views := c.Out
	if !specs[c.Op].keyIsOut() {
		views = c.In
	}
	if len(views) == 0 {
		return dtype.Invalid
	}
	return views[0].DType
}

// biased reports whether the last input is a bias, which may be left out.
func (s *spec) biased() bool { return s.rule == conv2d || s.rule == conv2dGradInput }

func (s *spec) keyIsOut() bool { return strings.HasPrefix(s.out, "k") || s.out == "*" }
