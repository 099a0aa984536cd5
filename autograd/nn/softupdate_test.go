package nn_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func fill(t *testing.T, m nn.Module, v float64) {
	t.Helper()
	for _, n := range nn.AllNamedState(m) {
		require.NoError(t, n.Parameter.Tensor().FillInPlace(v))
	}
}

func TestSoftUpdate_MovesParametersAndCopiesBuffers(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
	r.place(m)
	target, err := nn.Clone(m)
	require.NoError(t, err)
	defer target.Release()
	fill(t, m, 4)
	fill(t, target, 0)
	before := r.allocated()
	require.NoError(t, nn.SoftUpdate(target, m, 0.25))
	require.NoError(t, nn.SoftUpdate(target, m, 0.25))
	require.Equal(t, before, r.allocated(), "in place")
	for _, p := range target.Parameters() {
		require.Equal(t, 1.75, valuesOf(t, p)[0], "0.75*(0.25*4) + 0.25*4")
	}
	for _, n := range nn.NamedBuffers(target) {
		require.Equal(t, 4.0, valuesOf(t, n.Parameter)[0], n.Name)
	}
	require.NoError(t, nn.SoftUpdate(target, m, 1))
	require.Equal(t, 4.0, valuesOf(t, target.Parameters()[0])[0])
}

func TestSoftUpdate_RefusesOtherModels(t *testing.T) {
	r := onHost(t)
	m, other := nn.Linear(3, 2), nn.Linear(3, 1)
	r.place(m)
	r.place(other)
	tied := nn.Linear(3, 2)
	tied.Weight = m.Weight
	r.place(tied)
	var bad *nn.ArgumentError
	for _, err := range []error{nn.SoftUpdate(m, other, 0.5), nn.SoftUpdate(nil, m, 0.5), nn.SoftUpdate(m, tied, 0.5), nn.SoftUpdate(m, m, 0.5),
		nn.SoftUpdate(m, nn.Linear(3, 2), 0.5), nn.SoftUpdate(m, other, 1.5)} {
		require.ErrorAs(t, err, &bad)
	}
}

func TestSoftUpdate_SpeaksOfTheTarget(t *testing.T) {
	r := onHost(t)
	m, narrow := nn.Linear(3, 2), nn.Linear(3, 1)
	bare := nn.Linear(3, 2, nn.NoBias())
	for _, l := range []*nn.LinearLayer{m, narrow, bare} {
		r.place(l)
	}
	require.EqualError(t, nn.SoftUpdate(narrow, m, 0.5), "nn: SoftUpdate: weight has shape [2, 3] in the model and [1, 3] in the target")
	require.EqualError(t, nn.SoftUpdate(m, bare, 0.5), "nn: SoftUpdate: the model has no bias, which the target has")
	require.EqualError(t, nn.SoftUpdate(bare, m, 0.5), "nn: SoftUpdate: the model has 2 parameters and buffers, the target 1")
}

func TestAveragedModel_With_LendsTheAverages(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
	r.place(m)
	fill(t, m, 1)
	a, err := nn.EMA(m, 0.5)
	require.NoError(t, err)
	defer a.Release()
	require.NoError(t, a.Update(m))
	fill(t, m, 2)
	require.NoError(t, a.Update(m))
	wrong, before := errors.New("wrong"), r.allocated()
	tensors := m.Parameters()[0].Tensor()
	require.ErrorIs(t, a.With(m, func() error {
		require.Equal(t, 1.5, valuesOf(t, m.Parameters()[0])[0])
		require.Equal(t, 2.0, valuesOf(t, a.Module.Parameters()[0])[0])
		return wrong
	}), wrong)
	require.Equal(t, 2.0, valuesOf(t, m.Parameters()[0])[0])
	require.Equal(t, 1.5, valuesOf(t, a.Module.Parameters()[0])[0])
	require.Same(t, tensors, m.Parameters()[0].Tensor(), "optimizers have what they had")
	require.Equal(t, before, r.allocated())
	require.Panics(t, func() { _ = a.With(m, func() error { panic("in f") }) })
	require.Equal(t, 2.0, valuesOf(t, m.Parameters()[0])[0], "after a panic too")

	var bad *nn.ArgumentError
	require.ErrorAs(t, a.With(m, nil), &bad)
	require.ErrorAs(t, a.With(nil, func() error { return nil }), &bad)
	require.NoError(t, a.Module.To(r.dev, nn.WithAllocator(r.alloc), nn.DType(tensor.Float64)))
	var types *tensor.DTypeError
	require.ErrorAs(t, a.With(m, func() error { return nil }), &types)
}
