package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/tensor"
)

func TestNil_TensorsCountAsReleased(t *testing.T) {
	b := settings[0].bench(t)
	for name, x := range map[string]*tensor.Tensor{"nil": nil, "zero": new(tensor.Tensor)} {
		t.Run(name, func(t *testing.T) {
			require.True(t, x.Released())
			require.False(t, x.Exclusive() || x.SharesStorage(x))
			require.Zero(t, x.NDim()+x.Dim(0)+int(x.DType())+int(x.StorageBytes())+int(x.Version()))
			require.Empty(t, x.Shape())
			require.Empty(t, x.Strides())
			require.Nil(t, x.Device())
			require.Zero(t, x.Exec())
			require.Nil(t, x.Retain())
			require.Nil(t, x.On(b.Exec))
			require.Nil(t, x.Donate())
			require.Equal(t, map[string]string{"nil": "tensor(nil)", "zero": "tensor(released)"}[name], x.String())
			_, err := x.Add(x)
			require.ErrorIs(t, err, tensor.ErrReleased)
			require.False(t, tensor.ResultType(x, nil).Valid())
			x.Release()
			x.ReleaseLater()
		})
	}
	_, err := tensor.On(b.Device(), nil) // a nil option changes nothing
	require.NoError(t, err)
}

func TestShapeLen_OfWhatNoTensorHas(t *testing.T) {
	for _, c := range []struct {
		shape tensor.Shape
		want  int
	}{
		{nil, 1}, {tensor.Shape{2, 3}, 6}, {tensor.Shape{-1, 3}, 0}, {tensor.Shape{-1, -3}, 0},
		{tensor.Shape{1 << 32, 1 << 32}, math.MaxInt}, {tensor.Shape{1 << 62, 4, 0}, 0}, {tensor.Shape{1 << 62, 1, 1}, 1 << 62},
	} {
		require.Equal(t, c.want, c.shape.Len(), c.shape)
	}
}

func TestTensorDotEquation_OfShapesThatNoTensorHas(t *testing.T) {
	for _, shape := range []tensor.Shape{make(tensor.Shape, 9), {-1}, {1 << 40, 1 << 40}} {
		_, err := gradients.TensorDotEquation(shape, tensor.Shape{2}, []int{0}, []int{1})
		var bad *tensor.ShapeError
		require.ErrorAs(t, err, &bad)
		_, err = gradients.TensorDotEquation(tensor.Shape{2}, shape, nil, nil)
		require.ErrorAs(t, err, &bad)
	}
}

func TestPieces_AreRefusedWhereThereAreTooMany(t *testing.T) {
	b := settings[0].bench(t)
	m := making{t: t, Exec: b.Exec}
	defer m.release()
	wide := m.of(m.of(tensor.Ones(b.Exec, tensor.Float32, 1)).Expand(1 << 31))
	empty := m.of(tensor.Ones(b.Exec, tensor.Float32, 0))
	only := func(_ []*tensor.Tensor, err error) error { return err }
	var bad *tensor.ShapeError
	require.ErrorAs(t, only(wide.Unbind(0)), &bad)
	require.ErrorAs(t, only(wide.Split(1, 0)), &bad)
	require.ErrorAs(t, only(wide.Chunk(math.MaxInt, 0)), &bad)
	require.ErrorAs(t, only(empty.Chunk(1<<31, 0)), &bad)
	require.ErrorAs(t, only(empty.SplitSizes([]int{1 << 62, 1 << 62, 1 << 62, 1 << 62}, 0)), &bad)

	few, err := m.of(tensor.Ones(b.Exec, tensor.Float32, 3)).Chunk(math.MaxInt, 0)
	require.NoError(t, err)
	require.Len(t, few, 3)
	m.all = append(m.all, few...)
}

func TestNil_GeneratorHasNoState(t *testing.T) {
	var g *tensor.Generator
	g.SetState(tensor.GeneratorState{Seed: 3})
	require.Zero(t, g.State())
	require.Zero(t, g.Reserve(7))
}
