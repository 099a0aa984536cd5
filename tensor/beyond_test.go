package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// beyond are the uses of numbers that PyTorch 1.13 refuses if they are finite and beyond the largest one of the type of x, which holds them; of the type
// in which it is computed with, if wide.
var beyond = map[string]struct {
	f       func(x, mask, at *tensor.Tensor, v float64) (*tensor.Tensor, error)
	inPlace bool // f changes x, which it gives
	wide    bool
}{
	"Full": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return tensor.Full(x.Exec(), v, x.DType(), 2)
	}},
	"Scalar": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return tensor.Scalar(x.Exec(), v, x.DType())
	}},
	"FullLike":    {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.FullLike(v) }},
	"FillInPlace": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x, x.FillInPlace(v) }, inPlace: true},
	"MaskedFill":  {f: func(x, mask, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.MaskedFill(mask, v) }},
	"MaskedFillInPlace": {f: func(x, mask, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return x, x.MaskedFillInPlace(mask, v)
	}, inPlace: true},
	"IndexFill":    {f: func(x, _, at *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.IndexFill(0, at, v) }},
	"ScatterValue": {f: func(x, _, at *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.ScatterValue(0, at, v) }},
	"WhereScalar": {f: func(x, mask, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return tensor.WhereScalar(mask, x, v)
	}},
	"RWhereScalar": {f: func(x, mask, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return tensor.RWhereScalar(mask, v, x)
	}},
	"Pad": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return x.Pad([]int{1, 1}, tensor.PadConstant, v)
	}},
	"Linspace": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return tensor.Linspace(x.Exec(), 0, v, 1, x.DType())
	}},
	"Clamp": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.Clamp(-v, math.Inf(1)) }},
	"ClampInPlace": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return x, x.ClampInPlace(math.Inf(-1), v)
	}, inPlace: true},
	"Hardtanh": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		return x.Hardtanh(-math.Abs(v), math.Abs(v))
	}},
	"AddScaled":      {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.AddScaled(x, v) }},
	"AddInPlace":     {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x, x.AddInPlace(x, v) }, inPlace: true},
	"AddCMul":        {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.AddCMul(x, x, v) }, wide: true},
	"AddCDiv":        {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.AddCDiv(x, x, v) }, wide: true},
	"AddCMulInPlace": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x, x.AddCMulInPlace(x, x, v) }, inPlace: true, wide: true},
	"LeakyReLU":      {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) { return x.LeakyReLU(v) }, wide: true},
	"AddMM": {f: func(x, _, _ *tensor.Tensor, v float64) (*tensor.Tensor, error) {
		m, err := x.Reshape(1, 2)
		if err != nil {
			return nil, err
		}
		defer m.Release()
		row, err := m.Narrow(1, 0, 1)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		return tensor.AddMM(m, row, m, v, 1)
	}, wide: true},
}

// largestOf are the largest finite numbers of the types.
var largestOf = map[tensor.DType]float64{tensor.Float16: 65504, tensor.BFloat16: 0x1.fep127, tensor.Float32: math.MaxFloat32, tensor.Float64: math.MaxFloat64}

func TestNumbersBeyondAType_AreRefusedWhereTheyWouldBeInfinite(t *testing.T) {
	for name, c := range beyond {
		for dt, most := range largestOf {
			if dt == tensor.Float64 {
				continue // which holds all
			}
			holds := dt
			if c.wide {
				holds, most = tensor.Float32, math.MaxFloat32
			}
			b, _ := onSim(t)
			x, mask := must(t)(tensor.Ones(b.Exec, dt, 2)), must(t)(tensor.Zeros(b.Exec, tensor.Bool, 2))
			at := must(t)(tensor.Zeros(b.Exec, tensor.Int64, 1))
			for _, v := range []float64{math.Nextafter(most, math.Inf(1)), -2 * most} {
				before := b.allocated()
				_, err := c.f(x, mask, at, v)
				var bad *tensor.ValueError
				require.ErrorAs(t, err, &bad, "%s %v %v", name, dt, v)
				require.Equal(t, name, bad.Op)
				require.ErrorContains(t, err, "the largest number of "+holds.String()+" is ")
				require.Equal(t, before, b.allocated(), name)
				require.Zero(t, x.Version(), name)
			}
			for _, v := range []float64{most, -most, math.Inf(1), math.Inf(-1)} {
				r, err := c.f(x, mask, at, v)
				require.NoError(t, err, "%s %v %v", name, dt, v)
				if !c.inPlace {
					r.Release()
				}
			}
		}
	}
}

// A number that is computed with is not put anywhere.
func TestNumbersBeyondAType_AreOperandsAsInPyTorch(t *testing.T) {
	b := onHost(t)
	x := must(t)(tensor.Ones(b.Exec, tensor.Float16, 1))
	inf := math.Inf(1)
	for want, r := range map[float64][]*tensor.Tensor{
		inf: {must(t)(x.AddScalar(1e6)), must(t)(x.MulScalar(1e6)), must(t)(x.RSubScalar(1e6)), must(t)(x.RDivScalar(1e6)), must(t)(x.RPowScalar(1e6))},
		0:   {must(t)(x.GeScalar(1e6)), must(t)(x.EqScalar(1e6)), must(t)(x.DivScalar(1e12))},
		1:   {must(t)(x.LtScalar(1e6)), must(t)(x.FmodScalar(1e6)), must(t)(x.PowScalar(1e6))},
	} {
		for k, y := range r {
			require.Equal(t, []float64{want}, values(t, y), "%v %d", want, k)
		}
	}
}
