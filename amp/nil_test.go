package amp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestNil_ArgumentsOfAutocast(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	g := autograd.NewGraph(dev, amp.Autocast(amp.DeviceDefault, nil))
	defer g.Release()
	amp.Region(nil, nil, func() { t.Error("a region of no graph") })
	amp.Region(g, nil, nil)
	_, on := amp.Active(nil)
	require.False(t, on)
	require.NoError(t, amp.NewGradScaler(nil).Err())

	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2) })
	require.Nil(t, amp.CastInputs(tensor.Float16, nil))
	require.False(t, amp.CastInputs(tensor.Float16, nil, x).Alive())
	var bad *tensor.ValueError
	require.ErrorAs(t, g.Err(), &bad)
}

func TestNil_GradScalerIsAnErrorOfAllItsMethods(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	g := autograd.NewGraph(dev)
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Ones(e, tensor.Float32, 2) })
	value, err := x.Tensor()
	require.NoError(t, err)
	var s *amp.GradScaler
	require.False(t, s.IsEnabled())
	require.Zero(t, s.GrowthFactor()+s.BackoffFactor()+float64(s.GrowthInterval()))
	s.SetGrowthFactor(3)
	s.SetBackoffFactor(0.3)
	s.SetGrowthInterval(3)
	s.Release()
	_, scale := s.GetScale()
	_, state := s.State()
	_, skipped := s.Skipped(nil)
	_, scaled := s.ScaleTensor(value)
	for i, err := range []error{s.Err(), s.Step(nil), s.Unscale(nil), s.Update(), s.Backward(x), s.CheckState(amp.State{}),
		s.LoadState(amp.State{}), scale, state, skipped, scaled} {
		require.ErrorIs(t, err, amp.NoScaler, i)
	}
	require.True(t, s.ScaleAll(x)[0] == x)
	require.ErrorIs(t, g.Err(), amp.NoScaler)
}
