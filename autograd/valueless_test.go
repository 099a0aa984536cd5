package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// On a simulated device, operations whose results are as large as values say name themselves.
func TestVariables_OfShapesThatValuesGive_AreRefusedOnASimulatedDevice(t *testing.T) {
	for name, f := range map[string]func(x, mask, classes *autograd.Variable) *autograd.Variable{
		"nonzero":       func(x, _, _ *autograd.Variable) *autograd.Variable { return x.Nonzero() },
		"masked_select": func(x, mask, _ *autograd.Variable) *autograd.Variable { return x.MaskedSelect(mask) },
		"index":         func(x, mask, _ *autograd.Variable) *autograd.Variable { return x.Index(mask) },
		"index_put": func(x, mask, _ *autograd.Variable) *autograd.Variable {
			return x.IndexPut([]*autograd.Variable{mask}, x.Sum(nil, false), false)
		},
		"unique":             func(x, _, _ *autograd.Variable) *autograd.Variable { v, _, _ := x.Unique(); return v },
		"unique_consecutive": func(x, _, _ *autograd.Variable) *autograd.Variable { v, _, _ := x.UniqueConsecutive(); return v },
		"bincount":           func(_, _, classes *autograd.Variable) *autograd.Variable { return classes.BinCount(nil, 0) },
		"one_hot":            func(_, _, classes *autograd.Variable) *autograd.Variable { return classes.OneHot(-1) },
	} {
		dev := sim.New(64 << 20)
		g := autograd.NewGraph(dev)
		v := f(g.Zeros(tensor.Float32, 5), g.Zeros(tensor.Bool, 5), g.Zeros(tensor.Int64, 5))
		require.False(t, v.Alive(), name)
		var missing *tensor.ValuesError
		require.ErrorAs(t, g.Err(), &missing, name)
		require.Contains(t, g.Err().Error(), "autograd: "+name+"(")
		require.Contains(t, g.Err().Error(), "the result is as large as values say", name)
		g.Release()
		require.NoError(t, memory.Drop(dev), name)
		require.NoError(t, dev.Close())
	}
}
