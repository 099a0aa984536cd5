package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

// weightOf is a parameter of two elements.
func weightOf(r *rig, values ...float64) *autograd.Parameter {
	t, err := tensor.FromSlice(r.exec, values, len(values))
	require.NoError(r.t, err)
	p := autograd.NewParameter("w", t)
	r.t.Cleanup(p.Release)
	return p
}

func TestParam_FrozenAfterUseGetsNoGradientOfWhatComes(t *testing.T) {
	r := onHost(t)
	d, x := weightOf(r, 2, 3), weightOf(r, 5, 7)
	g := r.graph()
	defer g.Release()
	first := g.Param(d).Mul(g.Param(x)).Sum(nil, false)
	d.SetRequiresGrad(false)
	second := g.Param(d).Mul(g.Param(x)).Sum(nil, false)
	require.NoError(t, second.Backward())
	require.Nil(t, d.Grad())
	require.Equal(t, []float64{2, 3}, values(t, x.Grad()))
	require.NoError(t, first.Backward()) // it was not frozen then
	require.Equal(t, []float64{5, 7}, values(t, d.Grad()))
	require.Equal(t, []float64{4, 6}, values(t, x.Grad()))
}

func TestParam_UnfrozenAfterUseGetsTheGradientOfWhatComes(t *testing.T) {
	r := onHost(t)
	d := weightOf(r, 2, 3)
	d.SetRequiresGrad(false)
	g := r.graph()
	defer g.Release()
	frozen := g.Param(d)
	d.SetRequiresGrad(true)
	require.NoError(t, frozen.Mul(g.Param(d)).Sum(nil, false).Backward())
	require.Equal(t, []float64{2, 3}, values(t, d.Grad()))
	require.Same(t, g.Param(d), g.Param(d))
}

func TestParam_OfAnotherValueIsThat(t *testing.T) {
	r := onHost(t)
	d := weightOf(r, 2, 3)
	g := r.graph()
	defer g.Release()
	before := g.Param(d).MulScalar(2)
	d.Release()
	other, err := tensor.FromSlice(r.exec, []float64{10, 20}, 2)
	require.NoError(t, err)
	require.NoError(t, d.SetTensor(other))
	after := g.Param(d).MulScalar(3)
	require.Equal(t, []float64{4, 6}, valuesOf(t, before))
	require.Equal(t, []float64{30, 60}, valuesOf(t, after))
	require.NoError(t, after.Sum(nil, false).Backward())
	require.Equal(t, []float64{3, 3}, values(t, d.Grad()))
}
