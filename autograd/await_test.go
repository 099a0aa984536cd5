package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func TestAwait_NotesWhereTheValueWillBe(t *testing.T) {
	r := onHost(t)
	p := autograd.DeclareParameter("w", nil, 2)
	_, _, ok := p.Awaited()
	require.False(t, ok)
	require.NoError(t, p.Await(r.exec, tensor.BFloat16))
	e, dt, ok := p.Awaited()
	require.True(t, ok)
	require.Equal(t, r.exec, e)
	require.Equal(t, tensor.BFloat16, dt)
	g := r.graph()
	g.Param(p)
	require.ErrorIs(t, g.Err(), autograd.ErrNotMaterialized)
	require.ErrorContains(t, g.Err(), "to be loaded, and was not")
	g.Release()

	make := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		v, err := tensor.Zeros(r.exec, dt, shape...)
		require.NoError(t, err)
		t.Cleanup(v.Release)
		return v
	}
	var dtype *tensor.DTypeError
	require.ErrorAs(t, p.SetTensor(make(tensor.Float32, 2)), &dtype)
	var shape *tensor.ShapeError
	require.ErrorAs(t, p.SetTensor(make(tensor.BFloat16, 3)), &shape)
	var released *tensor.ReleasedError
	require.ErrorAs(t, p.SetTensor(nil), &released)
	value := make(tensor.BFloat16, 2)
	require.NoError(t, p.SetTensor(value))
	require.Same(t, value, p.Tensor())
	_, _, ok = p.Awaited()
	require.False(t, ok)
	var twice *tensor.ValueError
	require.ErrorAs(t, p.SetTensor(make(tensor.BFloat16, 2)), &twice)
	require.NoError(t, p.Await(r.exec, tensor.Float32), "it does nothing")
	require.Same(t, value, p.Tensor())
	p.Release()
}

func TestAwait_RefusesWhatNoParameterHas(t *testing.T) {
	r := onHost(t)
	p := autograd.DeclareParameter("w", nil, 2)
	var dtype *tensor.DTypeError
	require.ErrorAs(t, p.Await(r.exec, tensor.Int32), &dtype)
	require.ErrorAs(t, p.Await(r.exec, 0), &dtype)
	var device *tensor.DeviceError
	require.ErrorAs(t, p.Await(tensor.Exec{}, tensor.Float32), &device)
	require.ErrorIs(t, (*autograd.Parameter)(nil).Await(r.exec, tensor.Float32), autograd.ErrNotMaterialized)
	mistake := &tensor.ValueError{Op: "x"}
	require.ErrorIs(t, autograd.RefusedParameter("w", mistake).Await(r.exec, tensor.Float32), mistake)
	var grad *autograd.GradError
	ints, err := tensor.Zeros(r.exec, tensor.Int32, 2)
	require.NoError(t, err)
	defer ints.Release()
	require.ErrorAs(t, p.SetTensor(ints), &grad)
	p.SetRequiresGrad(false)
	require.NoError(t, p.Await(r.exec, tensor.Int32))
	require.NoError(t, p.SetTensor(ints))
}
