package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// Operations of bits.

func bitScalar(f func(*tensor.Tensor, int64) (*tensor.Tensor, error)) operation {
	return func(in tensors, a args) (*tensor.Tensor, error) { return f(in[0], int64(a.float(0))) }
}

func changedBits(f func(*tensor.Tensor, int64) error) operation {
	return inPlace(func(t *tensor.Tensor, _ tensors, a args) error { return f(t, int64(a.float(0))) })
}

var bitwiseOperations = map[string]operation{
	"BitwiseNot": one((*tensor.Tensor).BitwiseNot), "BitwiseNotInPlace": changed1((*tensor.Tensor).BitwiseNotInPlace),
	"BitwiseAnd": two((*tensor.Tensor).BitwiseAnd), "BitwiseOr": two((*tensor.Tensor).BitwiseOr), "BitwiseXor": two((*tensor.Tensor).BitwiseXor),
	"BitwiseLeftShift": two((*tensor.Tensor).BitwiseLeftShift), "BitwiseRightShift": two((*tensor.Tensor).BitwiseRightShift),
	"BitwiseAndScalar": bitScalar((*tensor.Tensor).BitwiseAndScalar), "BitwiseOrScalar": bitScalar((*tensor.Tensor).BitwiseOrScalar),
	"BitwiseXorScalar": bitScalar((*tensor.Tensor).BitwiseXorScalar), "BitwiseLeftShiftScalar": bitScalar((*tensor.Tensor).BitwiseLeftShiftScalar),
	"BitwiseRightShiftScalar": bitScalar((*tensor.Tensor).BitwiseRightShiftScalar),
	"BitwiseAndInPlace":       changed2((*tensor.Tensor).BitwiseAndInPlace), "BitwiseOrInPlace": changed2((*tensor.Tensor).BitwiseOrInPlace),
	"BitwiseXorInPlace": changed2((*tensor.Tensor).BitwiseXorInPlace), "BitwiseLeftShiftInPlace": changed2((*tensor.Tensor).BitwiseLeftShiftInPlace),
	"BitwiseRightShiftInPlace": changed2((*tensor.Tensor).BitwiseRightShiftInPlace),
	"BitwiseAndScalarInPlace":  changedBits((*tensor.Tensor).BitwiseAndScalarInPlace), "BitwiseOrScalarInPlace": changedBits((*tensor.Tensor).BitwiseOrScalarInPlace),
	"BitwiseXorScalarInPlace":        changedBits((*tensor.Tensor).BitwiseXorScalarInPlace),
	"BitwiseLeftShiftScalarInPlace":  changedBits((*tensor.Tensor).BitwiseLeftShiftScalarInPlace),
	"BitwiseRightShiftScalarInPlace": changedBits((*tensor.Tensor).BitwiseRightShiftScalarInPlace),
}

func init() {
	var samples []sample
	var refusals []refused
	add := func(name, in string, a args) { samples = append(samples, sample{name, in, a}) }
	refuse := func(name, in string, a args, want refusal) {
		refusals = append(refusals, refused{sample{name, in, a}, want})
	}
	for _, place := range []string{"", "InPlace"} {
		add("BitwiseNot"+place, "~int32[2 3]", nil)
		add("BitwiseNot"+place, "bool[3]", nil)
		refuse("BitwiseNot"+place, "float32[2]", nil, "dtype")
		for _, name := range []string{"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseLeftShift", "BitwiseRightShift"} {
			add(name+place, "int64[2 3] int32[3]", nil)
			add(name+place, "~uint8[2 3] int64[3 1]", nil)
			add(name+"Scalar"+place, "int32[3]", args{3.0})
			refuse(name+place, "int32[2] int32[3]", nil, "shape")
			refuse(name+place, "int32[2] float32[2]", nil, "dtype")
			refuse(name+"Scalar"+place, "float32[2]", args{1.0}, "dtype")
		}
	}
	refuse("BitwiseLeftShift", "bool[2] bool[2]", nil, "dtype")
	refuse("BitwiseAndInPlace", "bool[2] uint8[2]", nil, "dtype")
	refuse("BitwiseAndScalarInPlace", "bool[2]", args{1.0}, "dtype")
	register(bitwiseOperations, samples, refusals)
}

func TestBitwise_IsPyTorchs(t *testing.T) {
	var cases []struct {
		Op, To   string
		Operands []struct {
			DType  string
			Values []int64
		}
		Want []int64
		V    float64
	}
	readGolden(t, "bitwise.json", &cases)
	require.Greater(t, len(cases), 300)
	b := onHost(t)
	for _, c := range cases {
		var in tensors
		for _, x := range c.Operands {
			wide := must(t)(tensor.FromSlice(b.Exec, x.Values, len(x.Values)))
			in = append(in, must(t)(must(t)(wide.To(typeNamed(t, x.DType))).Clone()))
		}
		got, err := operations[c.Op](in, args{c.V})
		if c.Want == nil {
			var dtype *tensor.DTypeError
			require.ErrorAs(t, err, &dtype, "%v", c)
			continue
		}
		require.NoError(t, err, "%v", c)
		require.Equal(t, c.To, got.DType().String(), "%v", c)
		require.Equal(t, c.Want, integers(t, got), "%v", c)
		got.Release()
	}
}

func TestBitwiseShifts_ByMorePlacesThanThereAre(t *testing.T) {
	b := onHost(t)
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32, tensor.Uint8} {
		width := int64(8 * dt.Size())
		places := []int64{width - 1, width, width + 1, 127, -1}
		x := must(t)(must(t)(tensor.FromSlice(b.Exec, []int64{-3, -3, -3, -3, -3}, 5)).To(dt))
		n := must(t)(must(t)(tensor.FromSlice(b.Exec, places, 5)).To(dt))
		sign := int64(-1)
		if dt == tensor.Uint8 {
			sign = 0
		}
		right := integers(t, must(t)(x.BitwiseRightShift(n)))
		require.Equal(t, []int64{sign, sign, sign, sign}, right[1:], "%s", dt)
		require.Equal(t, []int64{0, 0, 0, 0}, integers(t, must(t)(x.BitwiseLeftShift(n)))[1:], "%s", dt)
		require.Equal(t, right[4:], integers(t, must(t)(x.BitwiseRightShiftScalar(-1)))[4:], "%s", dt)
	}
}
