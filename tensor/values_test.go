package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// valueShaped are the operations whose results are as large as values say.
var valueShaped = map[string]func(x, mask, classes *tensor.Tensor) (*tensor.Tensor, error){
	"Nonzero":      func(x, _, _ *tensor.Tensor) (*tensor.Tensor, error) { return x.Nonzero() },
	"MaskedSelect": func(x, mask, _ *tensor.Tensor) (*tensor.Tensor, error) { return x.MaskedSelect(mask) },
	"Index":        func(x, mask, _ *tensor.Tensor) (*tensor.Tensor, error) { return x.Index(mask) },
	"IndexPut": func(x, mask, _ *tensor.Tensor) (*tensor.Tensor, error) {
		one, err := tensor.Ones(x.Exec(), tensor.Float32)
		if err != nil {
			return nil, err
		}
		defer one.Release()
		return x.IndexPut([]*tensor.Tensor{mask}, one, false)
	},
	"IndexPutInPlace": func(x, mask, _ *tensor.Tensor) (*tensor.Tensor, error) {
		one, err := tensor.Ones(x.Exec(), tensor.Float32)
		if err != nil {
			return nil, err
		}
		defer one.Release()
		if err := x.IndexPutInPlace([]*tensor.Tensor{mask}, one, false); err != nil {
			return nil, err
		}
		return x.Clone()
	},
	"Unique": func(x, _, _ *tensor.Tensor) (*tensor.Tensor, error) {
		values, inverse, counts, err := x.Unique()
		inverse.Release()
		counts.Release()
		return values, err
	},
	"BinCount": func(_, _, classes *tensor.Tensor) (*tensor.Tensor, error) { return classes.BinCount(nil, 0) },
	"OneHot":   func(_, _, classes *tensor.Tensor) (*tensor.Tensor, error) { return classes.OneHot(-1) },
}

func TestValues_ThatGiveShapes_AreMissedOnASimulatedDevice(t *testing.T) {
	for name, f := range valueShaped {
		e, _ := onSim(t)
		require.False(t, e.Computes())
		x, mask, classes := must(t)(tensor.Zeros(e.Exec, tensor.Float32, 5)), must(t)(tensor.Zeros(e.Exec, tensor.Bool, 5)), must(t)(tensor.Zeros(e.Exec, tensor.Int64, 5))
		r, err := f(x, mask, classes)
		var missing *tensor.ValuesError
		require.ErrorAs(t, err, &missing, name)
		require.Nil(t, r, name)
		require.Equal(t, name, missing.Op)
		require.Equal(t, device.Sim, missing.Device.Kind)
		require.Regexp(t, `^tensor: `+name+`: the result is as large as values say, and sim\S* computes none$`, err.Error())
	}
}

// What has no elements has a known result.
func TestValues_OfNothingAreKnown(t *testing.T) {
	e, _ := onSim(t)
	x, mask, classes := must(t)(tensor.Zeros(e.Exec, tensor.Float32, 0)), must(t)(tensor.Zeros(e.Exec, tensor.Bool, 0)), must(t)(tensor.Zeros(e.Exec, tensor.Int64, 0))
	for name, f := range valueShaped {
		if name == "OneHot" {
			continue // it has no number of classes
		}
		r, err := f(x, mask, classes)
		require.NoError(t, err, name)
		require.Zero(t, r.Len(), name)
		r.Release()
	}
}

func TestExec_Computes(t *testing.T) {
	require.True(t, tensor.Exec{}.Computes())
	require.True(t, onHost(t).Computes())
}

func TestValues_ThatGiveNoShape_AreZerosOnASimulatedDevice(t *testing.T) {
	e, _ := onSim(t)
	x := must(t)(tensor.Zeros(e.Exec, tensor.Float32, 5))
	r, err := must(t)(tensor.Zeros(e.Exec, tensor.Int64, 5)).OneHot(3)
	require.NoError(t, err)
	require.Equal(t, tensor.Shape{5, 3}, r.Shape())
	r.Release()
	values, err := x.Float64s()
	require.NoError(t, err)
	require.Equal(t, make([]float64, 5), values)
}
