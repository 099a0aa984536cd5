package tensor_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestAllCloseAndEqual_AnswerAsPyTorchDoes_AndKeepNothing(t *testing.T) {
	b := onHost(t)
	make := func(v ...float64) *tensor.Tensor { return must(t)(tensor.FromSlice(b.Exec, v)) }
	x, near, far, short, nan := make(1, 2), make(1, 2.00001), make(1, 3), make(1), make(1, math.NaN())
	ints := must(t)(x.To(tensor.Int64))
	none := must(t)(tensor.Zeros(b.Exec, tensor.Float64, 0))
	before := b.allocated()
	for _, c := range []struct {
		f    func() (bool, error)
		want bool
	}{
		{func() (bool, error) { return x.AllClose(near, 1e-5, 1e-8, false) }, true},
		{func() (bool, error) { return x.AllClose(far, 1e-5, 1e-8, false) }, false},
		{func() (bool, error) { return x.AllClose(short, 0, 2, false) }, true},
		{func() (bool, error) { return nan.AllClose(nan, 1e-5, 1e-8, false) }, false},
		{func() (bool, error) { return nan.AllClose(nan, 1e-5, 1e-8, true) }, true},
		{func() (bool, error) { return x.Equal(x) }, true}, {func() (bool, error) { return x.Equal(near) }, false},
		{func() (bool, error) { return x.Equal(short) }, false}, {func() (bool, error) { return nan.Equal(nan) }, false},
		{func() (bool, error) { return none.Equal(none) }, true},
	} {
		got, err := c.f()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	require.Equal(t, before, b.allocated())
	_, err := x.Equal(ints)
	require.Equal(t, refusal("dtype"), kindOf(err))
	_, err = x.AllClose(make(1, 2, 3), 0, 0, false)
	require.Equal(t, refusal("shape"), kindOf(err))
	_, err = x.Equal(nil)
	require.True(t, errors.Is(err, tensor.ErrReleased))
}
