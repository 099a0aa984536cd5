package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestParametersToVector_AndBack(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
	r.place(m, nn.Seed(1))
	ps := m.Parameters()
	before := r.allocated()
	v, err := nn.ParametersToVector(ps)
	require.NoError(t, err)
	require.Equal(t, tensor.Shape{13}, v.Shape())
	values, err := v.Float64s()
	require.NoError(t, err)
	require.Equal(t, append(valuesOf(t, ps[0]), valuesOf(t, ps[1])...), values[:9])
	require.NoError(t, v.MulScalarInPlace(2))
	require.NoError(t, nn.VectorToParameters(v, ps))
	require.InDelta(t, 2*values[12], valuesOf(t, ps[3])[0], 1e-7)
	require.InDelta(t, 2*values[4], valuesOf(t, ps[0])[4], 1e-7)

	var bad *nn.ArgumentError
	_, err = nn.ParametersToVector(nil)
	require.ErrorAs(t, err, &bad)
	_, err = nn.ParametersToVector(append(ps[:4:4], nil))
	require.ErrorAs(t, err, &bad)
	_, err = nn.ParametersToVector(nn.Linear(1, 1).Parameters())
	require.ErrorAs(t, err, &bad)
	var shape *tensor.ShapeError
	require.ErrorAs(t, nn.VectorToParameters(v, ps[:2]), &shape)
	var released *tensor.ReleasedError
	require.ErrorAs(t, nn.VectorToParameters(nil, ps), &released)
	other := nn.Linear(1, 1)
	r.place(other, nn.DType(tensor.Float64))
	var types *tensor.DTypeError
	require.ErrorAs(t, nn.VectorToParameters(v, append(ps[:2:2], other.Weight)), &types)
	v.Release()
	other.Release()
	require.Equal(t, before, r.allocated())
}

func TestLayersOfFunctions_ArePyTorchs(t *testing.T) {
	r := onHost(t)
	x := r.tensor([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 4, 2, 1)
	require.Equal(t, "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1)", nn.LocalResponseNorm(2, autograd.LocalResponse{}).String())
	require.InDelta(t, 1/1.0000375, r.forward(nn.LocalResponseNorm(2, autograd.LocalResponse{}), x)[0], 1e-6, "1/(1 + 1e-4/2)^0.75")
	soft := r.forward(nn.Softmax2d(), x)
	require.InDelta(t, 1, soft[0]+soft[2]+soft[4]+soft[6], 1e-6)
	require.Equal(t, "Softmax2d()", nn.Softmax2d().String())
	deep := r.tensor([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1, 1, 2, 2, 2)
	norm := nn.InstanceNorm3d(1)
	require.Contains(t, norm.String(), "InstanceNorm3d(1, ")
	y := r.forward(norm, deep)
	require.InDelta(t, 0, y[0]+y[7], 1e-6)
	require.InDelta(t, 3.5/2.2912878, y[7], 1e-5)
}
