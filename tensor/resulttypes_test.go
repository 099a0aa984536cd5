package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

// typeOperations are those of two tensors, or a tensor and a number, whose types testdata/result_types.py asks PyTorch for.
var typeOperations = map[string]func(t, u *tensor.Tensor, v float64) (*tensor.Tensor, error){
	"Where": func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) {
		cond, err := tensor.Ones(t.Exec(), tensor.Bool, 2)
		if err != nil {
			return nil, err
		}
		defer cond.Release()
		return tensor.Where(cond, t, u)
	},
	"AddCMul": func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) { return t.AddCMul(u, u, 1) },
	"AddCDiv": func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) { return t.AddCDiv(u, u, 1) },
	"Cat": func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) {
		return tensor.Cat([]*tensor.Tensor{t, u}, 0)
	},
	"Stack": func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) {
		return tensor.Stack([]*tensor.Tensor{t, u}, 0)
	},
	"AddInPlace": changed(func(t, u *tensor.Tensor) error { return t.AddInPlace(u, 1) }),
	"SubInPlace": changed((*tensor.Tensor).SubInPlace), "MulInPlace": changed((*tensor.Tensor).MulInPlace),
	"DivInPlace": changed((*tensor.Tensor).DivInPlace),
}

// changed is a change in place as an operation: the result is what was changed.
func changed(f func(t, u *tensor.Tensor) error) func(t, u *tensor.Tensor, v float64) (*tensor.Tensor, error) {
	return func(t, u *tensor.Tensor, _ float64) (*tensor.Tensor, error) {
		if err := f(t, u); err != nil {
			return nil, err
		}
		return t.Retain(), nil
	}
}

// refusesMore are refusals that PyTorch does not know: docs/parity-ops.md names them.
func refusesMore(name string, t *tensor.Tensor) bool {
	return (name == "AddInPlace" || name == "MulInPlace") && t.DType() == tensor.Bool
}

func TestResultTypes_AreThoseOfPyTorchForAllPairsWithAndWithoutDimensions(t *testing.T) {
	var golden [][6]any
	readGolden(t, "result_types.json", &golden)
	require.Greater(t, len(golden), 3000)
	b := onHost(t)
	make := func(name any, dims any) *tensor.Tensor {
		return must(t)(tensor.Ones(b.Exec, typeNamed(t, name.(string)), []int{2, 2}[:int(dims.(float64))]...))
	}
	for _, p := range golden {
		name, want := p[0].(string), p[5].(string)
		x, u, v := make(p[1], p[2]), (*tensor.Tensor)(nil), 0.0
		if other, ok := p[3].(string); ok {
			u = make(other, p[4])
		} else {
			v = p[3].(float64)
		}
		if name == "ResultType" {
			assert.Equal(t, want, tensor.ResultType(x, u).String(), "%v", p)
			continue
		}
		f := typeOperations[name]
		if f == nil {
			f = func(t, u *tensor.Tensor, v float64) (*tensor.Tensor, error) {
				return operations[name]([]*tensor.Tensor{t, u}, args{v})
			}
		}
		got, err := f(x, u, v)
		if want == "" || refusesMore(name, x) {
			var types *tensor.DTypeError
			assert.ErrorAs(t, err, &types, "%v", p)
			got.Release()
			continue
		}
		if assert.NoError(t, err, "%v", p) {
			assert.Equal(t, want, got.DType().String(), "%v", p)
			got.Release()
		}
	}
}
