package nn_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// A model in channels_last trains as one that is not, its gradients and the optimizer's state lie as its kernels do, and what is saved is the same.
func TestMemoryFormat_OfAModelThatTrains(t *testing.T) {
	dev := host.New()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() {
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
		require.NoError(t, alloc.Close())
		require.NoError(t, dev.Close())
	}()
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	x, err := tensor.RandN(e, tensor.NewGenerator(1), tensor.Float64, 4, 3, 6, 6)
	require.NoError(t, err)
	defer x.Release()

	train := func(opts ...nn.Option) (saved []byte, kernel, linear tensor.MemoryFormat) {
		m := nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 2))
		require.NoError(t, m.To(dev, append(opts, nn.Seed(1), nn.DType(tensor.Float64), nn.WithAllocator(alloc))...))
		defer m.Release()
		opt := optim.AdamW(m.Parameters(), optim.LR(0.01))
		defer opt.Release()
		for range 3 {
			g := autograd.NewGraph(dev, autograd.WithAllocator(alloc))
			require.NoError(t, m.Forward(g.Input(x)).Square().Sum(nil, false).Backward())
			require.NoError(t, opt.Step())
			for _, p := range m.Parameters() {
				require.Equal(t, p.Tensor().MemoryFormat(), p.Grad().MemoryFormat())
				require.True(t, p.Grad().IsContiguousIn(p.Tensor().MemoryFormat()))
			}
			opt.ZeroGrad()
			g.Release()
		}
		var file bytes.Buffer
		require.NoError(t, nn.Save(&file, m))
		require.NoError(t, nn.Load(bytes.NewReader(file.Bytes()), m))
		require.NoError(t, m.To(dev, nn.WithAllocator(alloc)))
		return file.Bytes(), m.Parameters()[0].Tensor().MemoryFormat(), m.Parameters()[6].Tensor().MemoryFormat()
	}
	first, kernel, _ := train()
	require.Equal(t, tensor.ContiguousFormat, kernel)
	last, kernel, linear := train(nn.MemoryFormat(tensor.ChannelsLast))
	require.Equal(t, tensor.ChannelsLast, kernel, "loading and moving leaves the format")
	require.Equal(t, tensor.ContiguousFormat, linear)
	a, b := loadedFrom(t, first), loadedFrom(t, last)
	require.NotEmpty(t, a)
	for name, want := range a {
		// The bias before the batch norm has a gradient of rounding alone, which AdamW divides by its eps.
		require.InDeltaSlice(t, want, b[name], 1e-8, name)
	}
}

func loadedFrom(t *testing.T, file []byte) map[string][]float64 {
	t.Helper()
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, alloc.Close()) }()
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	all, err := nn.ReadTensors(e, bytes.NewReader(file))
	require.NoError(t, err)
	values := map[string][]float64{}
	for name, x := range all {
		values[name], err = x.Float64s()
		require.NoError(t, err)
		x.Release()
	}
	return values
}

// A model that is there is converted, gradients too, or left as it is.
func TestMemoryFormat_OfAModelThatIsThere(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	m := nn.Conv2d(2, 3, 3)
	require.NoError(t, m.To(dev, nn.Seed(1)))
	w := m.Parameters()[0]
	grad, err := w.Tensor().Clone()
	require.NoError(t, err)
	require.NoError(t, w.SetGrad(grad))
	opt := optim.SGD(m.Parameters(), optim.LR(0), optim.Momentum(0.9))
	defer opt.Release()
	require.NoError(t, opt.Step())
	require.NoError(t, m.To(dev, nn.MemoryFormat(tensor.ChannelsLast)))
	require.Equal(t, tensor.ChannelsLast, w.Tensor().MemoryFormat())
	require.Equal(t, tensor.ChannelsLast, w.Grad().MemoryFormat())
	require.NoError(t, opt.Step()) // the state follows
	require.NoError(t, m.To(dev, nn.MemoryFormat(tensor.ContiguousFormat)))
	require.NoError(t, opt.Step())
	require.True(t, w.Tensor().IsContiguous() && w.Grad().IsContiguous())
	require.Error(t, m.To(dev, nn.MemoryFormat(9)))
	require.True(t, w.Tensor().IsContiguous())
	m.Release()
}
