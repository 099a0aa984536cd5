package tensor_test

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// sample is a legal use of an operation: the inputs as type and shape, and the arguments.
type sample struct {
	op   string
	in   string
	args args
}

// samples use each operation, and those that make temporaries with types, shapes and strides that need them: "~" is a
// transposed input.
var samples = []sample{
	{"View", "float32[2 3]", args{3.0, 2.0}}, {"Reshape", "float32[2 3]", args{6.0}}, {"Reshape", "~float32[2 3]", args{6.0}},
	{"Expand", "float32[1 3]", args{2.0, 3.0}}, {"BroadcastTo", "float32[3]", args{2.0, 3.0}},
	{"Permute", "float32[2 3]", args{1.0, 0.0}}, {"Squeeze", "float32[2 1 3]", nil}, {"Unsqueeze", "float32[2]", args{0.0}},
	{"Flatten", "float32[2 3]", args{0.0, 1.0}}, {"Flatten", "~float32[2 3]", args{0.0, 1.0}},
	{"Transpose", "float32[2 3]", args{0.0, 1.0}}, {"Select", "float32[2 3]", args{0.0, 1.0}}, {"T", "float32[2 3]", nil},
	{"Slice", "float32[5 3]", args{0.0, 1.0, 4.0, 2.0}}, {"Narrow", "float32[5]", args{0.0, 1.0, 2.0}},
	{"Contiguous", "float32[2 3]", nil}, {"Contiguous", "~float32[2 3]", nil}, {"Clone", "float32[2 3]", nil},
	{"Clone", "~float16[2 3]", nil}, {"To", "float32[2 3]", args{1.0}}, {"To", "~bool[2 3]", args{2.0}},
	{"ToDevice", "float32[3]", nil}, {"SumTo", "float32[2 3]", args{3.0}}, {"SumTo", "int32[4 2 3]", args{2.0, 1.0}},

	{"Add", "float32[2 3] float32[2 3]", nil}, {"Add", "float32[2 3] ~float64[1 2]", nil}, {"Add", "int64[2] float16[2]", nil},
	{"Add", "bool[2] bool[2]", nil}, {"AddScaled", "int32[3] uint8[3]", args{2.0}}, {"Sub", "float32[3] bfloat16[2 1]", nil},
	{"Where", "bool[3] float32[2 1] float64[3]", nil},
	{"SubScalar", "float32[3]", args{2.5}},
	{"PowScalar", "int32[3]", args{2.0}}, {"Clamp", "int32[3]", args{-0.5, 0.5}},
	{"EqScalar", "int32[3]", args{1.5}}, {"NeScalar", "uint8[3]", args{300.0}}, {"LtScalar", "float32[3]", args{1.0}},
	{"LeScalar", "float32[3]", args{1.0}}, {"GtScalar", "bool[3]", args{0.0}}, {"GeScalar", "float16[3]", args{0.0}},

	{"Dropout", "float32[2 3]", args{0.5}}, {"Dropout", "~float16[2 3]", args{0.5}},
	{"SoftmaxGrad", "float32[2 3] ~float32[3 2]", args{0.0}}, {"LogSoftmaxGrad", "float32[2 3] float32[2 3]", args{1.0}},

	{"Sum", "~float32[2 3]", args{false, 0.0}}, {"Sum", "int32[2 3]", args{true}}, {"Mean", "bfloat16[2 3]", args{false, 1.0}},
	{"Max", "float32[2 3]", args{false, 0.0}}, {"Min", "bool[2 3]", args{false}}, {"Any", "float32[2 3]", args{false, 0.0}},
	{"All", "bool[2 3]", args{true, 0.0}}, {"Prod", "bool[2 3]", nil}, {"Var", "float16[2 3]", args{1.0, false, 1.0}},
	{"Std", "float32[2 3]", args{1.0, true}}, {"ArgMax", "float32[2 3]", args{1.0, false}},
	{"ArgMin", "float32[]", args{0.0, false}},

	{"MatMul", "float32[2 3] ~float32[4 3]", nil}, {"MatMul", "float32[3] float32[5 3 2]", nil},
	{"Linear", "float32[5 2 3] float32[4 3] float32[4]", nil}, {"Linear", "~float32[3 2] float32[4 3]", nil},
	{"LinearAct", "float32[5 2 3] float32[4 3] float32[4]", args{2.0}}, {"LinearAct", "float32[3] float32[4 3] float32[4]", args{1.0}},
	{"LinearAct", "~float32[3 2] float32[4 3]", args{3.0}}, {"LinearAct", "~float32[3 2 5] float32[4 5]", args{0.0}},
	{"LinearActPre", "float32[5 2 3] float32[4 3] float32[4]", args{2.0}}, {"LinearActPre", "~float32[3 2 5] float32[4 5] float32[4]", args{3.0}},
	{"AddMM", "float32[4] float32[2 3] float32[3 4]", args{0.5, 2.0}},
	{"Conv1d", "float32[2 3 7] float32[4 3 3] float32[4]", args{1.0, 1.0, 1.0, 1.0}},
	{"Conv1d", "~float32[7 3] float32[4 3 3]", args{2.0, 1.0, 1.0, 1.0}},
	{"Conv2d", "float16[2 4 5 6] float16[6 2 3 3] float16[6]", args{1.0, 1.0, 1.0, 2.0}},
	{"Conv2d", "float64[4 5 6] float64[3 4 2 2]", args{2.0, 0.0, 2.0, 1.0}},
	{"ConvTranspose1d", "float32[2 3 7] float32[3 4 3] float32[4]", args{2.0, 1.0, 1.0, 1.0}},
	{"ConvTranspose2d", "float32[2 4 3 2] float32[4 2 3 3]", args{2.0, 0.0, 0.0, 2.0}},
	{"ConvGradInput", "float32[2 6 5 6] float32[6 2 3 3]", args{1.0, 1.0, 1.0, 2.0, 2.0, 4.0, 5.0, 6.0}},
	{"ConvGradInput", "float32[4 7] float32[4 3 3]", args{1.0, 1.0, 1.0, 1.0, 3.0, 7.0}},
	{"ConvGradWeight", "float32[2 6 5 6] float32[2 4 5 6]", args{1.0, 1.0, 1.0, 2.0, 6.0, 2.0, 3.0, 3.0}},
	{"ConvTransposeGradInput", "float32[2 4 14] float32[3 4 3]", args{2.0, 1.0, 1.0, 1.0, 2.0, 3.0, 7.0}},
	{"ConvTransposeGradWeight", "float32[2 4 14] float32[2 3 7]", args{2.0, 1.0, 1.0, 1.0, 3.0, 4.0, 3.0}},
	{"MaxPool1d", "float32[2 3 7]", args{3.0, 2.0, 1.0}}, {"MaxPool2d", "bfloat16[3 6 7]", args{2.0, 2.0, 0.0}},
	{"MaxPool2d", "float32[2 1 20 20]", args{17.0, 1.0, 0.0}},
	{"AvgPool1d", "float32[2 3 7]", args{3.0, 2.0, 1.0}}, {"AvgPool2d", "float32[2 3 6 7]", args{3.0, 2.0, 1.0}},
	{"AdaptiveMaxPool1d", "float32[2 3 7]", args{3.0}}, {"AdaptiveMaxPool2d", "float32[2 3 7 6]", args{3.0, 4.0}},
	{"AdaptiveAvgPool1d", "float32[3 7]", args{3.0}}, {"AdaptiveAvgPool2d", "float32[2 3 7 6]", args{1.0}},
	{"MaxPoolGrad", "float32[2 3 4] uint8[2 3 4]", args{3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 7.0}},
	{"MaxPoolGrad", "float32[2 3 4 4] uint8[2 3 4 4]", args{3.0, 2.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0}},
	{"AvgPoolGrad", "float32[2 3 4 4]", args{3.0, 2.0, 1.0, 2.0, 2.0, 3.0, 7.0, 8.0}},
	{"UpsampleNearest2d", "float32[2 3 4 5]", args{1.5, false}}, {"UpsampleBilinear2d", "float64[2 3 4 5]", args{2.0, true}},
	{"UpsampleNearest2dGrad", "float32[2 3 6 7]", args{1.5, false, 2.0, 3.0, 4.0, 5.0}},
	{"UpsampleBilinear2dGrad", "float16[2 3 8 10]", args{2.0, false, 2.0, 3.0, 4.0, 5.0}},
	{"Softmax", "float32[2 3]", args{0.0}}, {"LogSoftmax", "~float32[2 3]", args{1.0}},
	{"NLL", "float32[4 2] int64[4]", args{-100.0}}, {"NLLGrad", "float32[4] int64[4]", args{2.0, -100.0}},
	{"ScaledDotProductAttention", "float32[2 3 5 4] float32[2 3 6 4] float32[2 3 6 2]", args{0.0, false, false}},
	{"ScaledDotProductAttention", "float16[5 4] float16[6 4] float16[6 4] bool[5 6]", args{0.5, false, false}},
	{"ScaledDotProductAttention", "float32[2 1 4 5 4] ~float32[3 1 2 6 4] float32[2 6 2] float64[1 6]", args{0.0, false, true}},
	{"ScaledDotProductAttention", "float64[2 3 5 4] float64[6 4] float64[3 6 4]", args{0.25, true, false}},
	{"AttentionGrad", "float32[5 2] float32[5 4] float32[6 4] float32[6 2]", args{0.5, true, false}},
	{"AttentionGrad", "float32[2 3 5 2] float32[2 3 5 4] float32[3 6 4] float32[2 3 6 2] float32[5 6]", args{0.0, false, false}},
	{"AttentionGrad", "float16[2 2 3 5 2] float16[2 2 3 5 4] float16[1 2 1 6 4] float16[2 1 1 6 2] bool[6]", args{0.0, false, true}},
	{"AttentionGradInto", "float32[2 3 5 4] float32[2 3 5 4] float32[2 3 5 4] float32[2 3 5 4]", args{0.0, true, false}},
	{"AttentionGradInto", "float32[5 4] float32[5 4] float32[5 4] float32[5 4] float64[5 5]", args{0.0, false, false}},
	{"CrossEntropy", "float32[4 2] int64[4]", args{0.0}}, {"CrossEntropy", "~float16[2 4] int64[4] float16[2]", args{0.1}},
	{"MSELoss", "float32[2 3] ~float64[3 2]", nil}, {"L1Loss", "float16[2 3] float16[3]", nil}, {"BCELoss", "float32[3] float32[3]", nil},
	{"BCEWithLogitsLoss", "float32[3] int64[3]", nil}, {"SmoothL1Loss", "float32[3] float32[3]", args{0.5}},
	{"HuberLoss", "bfloat16[3] bfloat16[2 1]", args{2.0}}, {"KLDivLoss", "float32[3] float32[3]", args{true}},
	{"MSELossGrad", "float32[] float32[2 3] ~float64[3 2]", nil}, {"L1LossGrad", "float16[2 3] float16[2 3] float16[3]", nil},
	{"BCELossGrad", "float32[] float32[3] float32[3]", nil}, {"BCEWithLogitsLossGrad", "float32[3] float32[3] int64[3]", nil},
	{"SmoothL1LossGrad", "float32[3] float32[3] float32[3]", args{0.5}}, {"HuberLossGrad", "float32[1] bfloat16[3] bfloat16[2 1]", args{2.0}},
	{"KLDivLossGrad", "float32[3] float32[3] float32[3]", args{false}},
	{"Cat", "float32[2 3] ~float64[3 1] float32[0]", args{0.0}}, {"Stack", "float32[3] int32[3]", args{1.0}},
	{"IndexSelect", "~float32[2 3] int32[4]", args{1.0}}, {"IndexAdd", "float32[2 3] int32[4] float32[4 3]", args{0.0}},
	{"FillInPlace", "float32[2 3]", args{1.0}}, {"ZeroInPlace", "float32[3]", nil}, {"CopyFrom", "float32[2 3] int32[3]", nil},
	{"AddInPlace", "float16[2 3] float32[3]", args{2.0}}, {"AddInPlace", "float32[2 3] int32[3]", args{2.0}},
	{"MulScalarInPlace", "float32[3]", args{2.0}},
}

// inputs makes the inputs of a sample under e. The values are small and of both signs; those of integers are 0 and 1, which
// are legal as indices and classes.
func (s sample) inputs(t testing.TB, e tensor.Exec) tensors {
	t.Helper()
	var in tensors
	for spec := range strings.SplitSeq(strings.ReplaceAll(s.in, "] ", "]|"), "|") {
		text, transposed := strings.CutPrefix(spec, "~")
		name, rest, _ := strings.Cut(strings.TrimSuffix(text, "]"), "[")
		shape := []int{}
		for _, d := range strings.Fields(rest) {
			n, err := strconv.Atoi(d)
			require.NoError(t, err)
			shape = append(shape, n)
		}
		data := make([]float64, tensor.Shape(shape).Len())
		for i := range data {
			data[i] = 2 * math.Sin(float64(3*i+len(in)))
			if dt := typeNamed(t, name); !dt.IsFloat() {
				data[i] = float64((i*i + len(in)) % 3 % 2)
			}
		}
		x := must(t)(must(t)(tensor.FromSlice(e, data, shape...)).To(typeNamed(t, name)))
		if transposed {
			x = must(t)(x.Transpose(0, 1))
		}
		in = append(in, x)
	}
	return in
}

func (s sample) run(in tensors) (*tensor.Tensor, error) { return operations[s.op](in, s.args) }

func (s sample) String() string { return fmt.Sprintf("%s(%s)%v", s.op, s.in, s.args) }

func TestOperations_AreAllSampled(t *testing.T) {
	sampled := map[string]bool{}
	for _, s := range samples {
		sampled[s.op] = true
	}
	for name := range operations {
		require.True(t, sampled[name], "%s has no sample", name)
	}
	handle := reflect.TypeFor[*tensor.Tensor]()
	failure := reflect.TypeFor[error]()
	notOperations := map[string]bool{"CopyToHost": true, "Item": true, "Float64s": true, "Synchronize": true}
	for i := range handle.NumMethod() {
		m := handle.Method(i)
		last := m.Type.NumOut() - 1
		if last < 0 || m.Type.Out(last) != failure || notOperations[m.Name] {
			continue
		}
		require.Contains(t, operations, m.Name, "a method that can fail is not among the tested operations")
	}
}
