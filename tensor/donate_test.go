package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestDonate_LetsAnElementwiseOperationWriteOver(t *testing.T) {
	b := onHost(t)
	x, y := iota(t, b.Exec, 2, 3), iota(t, b.Exec, 3)
	for name, f := range map[string]func(d *tensor.Tensor) (*tensor.Tensor, error){
		"unary":     func(d *tensor.Tensor) (*tensor.Tensor, error) { return d.Neg() },
		"broadcast": func(d *tensor.Tensor) (*tensor.Tensor, error) { return d.Mul(y) },
		"second":    func(d *tensor.Tensor) (*tensor.Tensor, error) { return y.Add(d) },
		"itself":    func(d *tensor.Tensor) (*tensor.Tensor, error) { return d.Mul(d) },
		"rows":      func(d *tensor.Tensor) (*tensor.Tensor, error) { return gradients.Softmax(d, x, 0) },
		"gradient":  func(d *tensor.Tensor) (*tensor.Tensor, error) { return gradients.Tanh(d, x) },
	} {
		want := values(t, must(t)(f(must(t)(x.Clone()))))
		c := must(t)(x.Clone())
		before, version := b.allocated(), c.Version()
		d := c.Donate()
		got, err := f(d)
		require.NoError(t, err)
		require.Equal(t, before, b.allocated(), name)
		require.True(t, got.SharesStorage(c), name)
		require.Equal(t, version+1, c.Version(), name)
		require.Equal(t, want, values(t, got), name)
		d.Release()
		c.Release()
		require.Equal(t, want, values(t, got), "the result keeps the storage")
		got.Release()
	}
}

func TestDonate_IsNotTakenWhereTheResultDoesNotFit(t *testing.T) {
	b := onHost(t)
	matrix := iota(t, b.Exec, 2, 3)
	base := must(t)(matrix.Clone())
	for name, f := range map[string]func() (*tensor.Tensor, error){
		"another type": func() (*tensor.Tensor, error) { return must(t)(base.Donate(), nil).GtScalar(1) },
		"promoted": func() (*tensor.Tensor, error) {
			return must(t)(base.Donate(), nil).Add(must(t)(matrix.To(tensor.Float64)))
		},
		"a larger one":  func() (*tensor.Tensor, error) { return must(t)(base.Donate(), nil).Add(iota(t, b.Exec, 4, 2, 3)) },
		"transposed":    func() (*tensor.Tensor, error) { return must(t)(must(t)(base.T()).Donate(), nil).Neg() },
		"with its part": func() (*tensor.Tensor, error) { return must(t)(base.Donate(), nil).Add(must(t)(base.Select(0, 0))) },
		"a sum":         func() (*tensor.Tensor, error) { return must(t)(base.Donate(), nil).Sum(nil, false) },
	} {
		out := must(t)(f())
		require.False(t, out.SharesStorage(base), name)
		require.Equal(t, values(t, matrix), values(t, base), name)
		require.Zero(t, base.Version())
	}
}
