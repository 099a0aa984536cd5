package models_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/examples/models"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// golden is a model of testdata/models.py.
type golden struct {
	Name       string
	Parameters []struct {
		Name  string
		Shape []int
	}
	Input       []float64
	Shape       []int
	Classes     []int64
	OutShape    []int `json:"out_shape"`
	Train, Eval []float64
	Gradients   map[string][]float64
}

// goldens are the models of testdata/models.py, and the numbers of parameters of larger ones.
func goldens(t *testing.T) (cases []golden, counts map[string]int) {
	t.Helper()
	text, err := os.ReadFile("testdata/models.json")
	require.NoError(t, err)
	var file struct {
		Cases  []golden
		Counts map[string]int
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Cases)
	return file.Cases, file.Counts
}

func resNet(t *testing.T, c models.ResNetConfig) nn.Layer {
	t.Helper()
	m, err := models.NewResNet(c)
	require.NoError(t, err)
	return m
}

func gpt(t *testing.T, c models.GPTConfig) nn.Layer {
	t.Helper()
	m, err := models.NewGPT(c)
	require.NoError(t, err)
	return m
}

var (
	smallResNet = models.ResNetConfig{Channels: 2, Classes: 3, Widths: []int{2, 3}, Blocks: 2}
	// Of three blocks, one of which neither widens nor halves.
	smallBottleneck = models.ResNetConfig{Channels: 2, Classes: 3, Widths: []int{2, 3}, Stages: []int{2, 1}, Bottleneck: true, Large: true}
	smallGPT        = models.GPTConfig{Vocab: 7, Context: 5, Layers: 2, Width: 4, Heads: 2}
)

// small makes the model of a golden case.
func small(t *testing.T, name string, checkpoint bool) nn.Layer {
	t.Helper()
	switch name {
	case "resnet":
		return resNet(t, smallResNet)
	case "bottleneck":
		return resNet(t, smallBottleneck)
	}
	c := smallGPT
	c.Checkpoint, c.Tied = checkpoint, name == "gpt tied"
	return gpt(t, c)
}

// open makes a device whose allocator must hold nothing at the end of the test.
func open(t *testing.T, dev device.Device) tensor.Exec {
	t.Helper()
	e, err := tensor.On(dev)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, memory.Drop(dev), "nothing is in use any more")
		require.NoError(t, dev.Close())
	})
	return e
}

// input makes the input of a case, tokens if it is for a language model.
func (c *golden) input(t *testing.T, e tensor.Exec) (x *tensor.Tensor) {
	t.Helper()
	var err error
	if strings.HasPrefix(c.Name, "gpt") {
		tokens := make([]int64, len(c.Input))
		for i, v := range c.Input {
			tokens[i] = int64(v)
		}
		x, err = tensor.FromSlice(e, tokens, c.Shape...)
	} else {
		x, err = tensor.FromSlice(e, c.Input, c.Shape...)
	}
	require.NoError(t, err)
	return x
}

// fill gives parameters the values of testdata/models.py.
func fill(t *testing.T, e tensor.Exec, m nn.Layer) {
	t.Helper()
	k := 0
	for _, p := range m.Parameters() {
		values := make([]float64, p.Len())
		for i := range values {
			values[i] = math.Sin(1+0.37*float64(k)+float64(k%5)) / 2
			k++
		}
		v, err := tensor.FromSlice(e, values, p.Shape()...)
		require.NoError(t, err)
		require.NoError(t, p.Tensor().CopyFrom(v))
		v.Release()
	}
}

func TestModels_HavePyTorchsParameters(t *testing.T) {
	cases, _ := goldens(t)
	for _, c := range cases {
		for _, checkpoint := range []bool{false, true} {
			named := nn.NamedParameters(small(t, c.Name, checkpoint))
			require.Len(t, named, len(c.Parameters))
			for i, want := range c.Parameters {
				require.Equal(t, want.Name, named[i].Name)
				require.EqualValues(t, want.Shape, named[i].Parameter.Shape(), want.Name)
			}
		}
	}
}

func TestModels_HaveAsManyParametersAsPyTorchs(t *testing.T) {
	_, counts := goldens(t)
	require.Equal(t, 11_173_962, counts["resnet18"], "the published number")
	require.Equal(t, 25_557_032, counts["resnet50"], "the published number")
	require.Equal(t, 124_439_808, counts["gpt2"], "the published number")
	for name, m := range map[string]nn.Layer{
		"resnet18":               resNet(t, models.ResNetConfig{Channels: 3, Classes: 10, Widths: []int{64, 128, 256, 512}, Blocks: 2}),
		"resnet of three stages": resNet(t, models.ResNetConfig{Channels: 1, Classes: 10, Widths: []int{16, 32, 64}, Blocks: 1}),
		"resnet50": resNet(t, models.ResNetConfig{Channels: 3, Classes: 1000, Widths: []int{64, 128, 256, 512}, Stages: []int{3, 4, 6, 3},
			Bottleneck: true, Large: true}),
		"gpt2":                 gpt(t, models.GPTConfig{Vocab: 50257, Context: 1024, Layers: 12, Width: 768, Heads: 12, Tied: true}),
		"gpt of the benchmark": gpt(t, models.GPTConfig{Vocab: 8192, Context: 256, Layers: 6, Width: 384, Heads: 6}),
	} {
		got := 0
		for _, p := range m.Parameters() {
			got += p.Len()
		}
		require.Equal(t, counts[name], got, name)
	}
}

// compare runs a case on the host: a training pass with gradients, then one in evaluation mode.
func compare(t *testing.T, c golden, checkpoint bool) {
	dev := host.New(host.Capacity(64 << 20))
	e := open(t, dev)
	m := small(t, c.Name, checkpoint)
	defer m.Release()
	require.NoError(t, m.To(dev, nn.DType(tensor.Float64)))
	fill(t, e, m)
	x := c.input(t, e)
	defer x.Release()
	y, err := tensor.FromSlice(e, c.Classes)
	require.NoError(t, err)
	defer y.Release()

	g := autograd.NewGraph(dev)
	defer g.Release()
	logits := m.Forward(g.Input(x)).Keep()
	require.EqualValues(t, c.OutShape, logits.Shape())
	got, err := logits.Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, c.Train, got, 1e-10)
	require.NoError(t, logits.Reshape(-1, c.OutShape[len(c.OutShape)-1]).CrossEntropy(g.Input(y)).Backward())
	for _, n := range nn.NamedParameters(m) {
		require.NotNil(t, n.Parameter.Grad(), n.Name)
		gradient, err := n.Parameter.Grad().Float64s()
		require.NoError(t, err)
		require.InDeltaSlice(t, c.Gradients[n.Name], gradient, 1e-10, n.Name)
	}
	nn.Eval(m)
	quiet := autograd.NewGraph(dev, autograd.NoGrad())
	defer quiet.Release()
	got, err = m.Forward(quiet.Input(x)).Float64s()
	require.NoError(t, err)
	require.InDeltaSlice(t, c.Eval, got, 1e-10)
}

func TestModels_ComputeWhatPyTorchsDo(t *testing.T) {
	cases, _ := goldens(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { compare(t, c, false) })
		if strings.HasPrefix(c.Name, "gpt") {
			t.Run(c.Name+", each layer checkpointed", func(t *testing.T) { compare(t, c, true) })
		}
	}
}

func TestModels_RunOnASimulatedDevice(t *testing.T) {
	cases, _ := goldens(t)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			dev := sim.New(1 << 30)
			e := open(t, dev)
			m := small(t, c.Name, true)
			defer m.Release()
			require.NoError(t, m.To(dev, nn.DType(tensor.Float64)))
			x := c.input(t, e)
			defer x.Release()
			g := autograd.NewGraph(dev)
			defer g.Release()
			logits := m.Forward(g.Input(x))
			require.EqualValues(t, c.OutShape, logits.Shape())
			require.NoError(t, logits.Sum(nil, false).Backward())
			for _, n := range nn.NamedParameters(m) {
				require.NotNil(t, n.Parameter.Grad(), n.Name)
			}
		})
	}
}

func TestModels_HalveImagesBetweenStagesAndTakeAnySize(t *testing.T) {
	dev := sim.New(1 << 30)
	e := open(t, dev)
	m := resNet(t, models.ResNetConfig{Channels: 1, Classes: 4, Widths: []int{2, 2, 2, 2}, Blocks: 1})
	defer m.Release()
	require.NoError(t, m.To(dev))
	require.Equal(t, 3, strings.Count(names(m), "shortcut.0.weight"), "where a stage halves the image")
	for _, size := range [][2]int{{32, 32}, {28, 28}, {9, 5}, {1, 1}} {
		x, err := tensor.Zeros(e, tensor.Float32, 3, 1, size[0], size[1])
		require.NoError(t, err)
		g := autograd.NewGraph(dev)
		require.Equal(t, tensor.Shape{3, 4}, m.Forward(g.Input(x)).Shape(), size)
		require.NoError(t, g.Err())
		g.Release()
		x.Release()
	}
}

func names(m nn.Layer) string {
	var all []string
	for _, n := range nn.NamedParameters(m) {
		all = append(all, n.Name)
	}
	return strings.Join(all, "\n")
}

// Tokens that come after those in a cache have the logits that they have in the whole.
func TestGPT_DecodesInChunksWhatItComputesAtOnce(t *testing.T) {
	dev := host.New()
	defer func() { require.NoError(t, dev.Close()) }()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, alloc.Close()) }()
	for _, recomputed := range []bool{false, true} {
		m, err := models.NewGPT(models.GPTConfig{Vocab: 11, Context: 8, Layers: 2, Width: 12, Heads: 3, Dropout: 0.5, Checkpoint: recomputed})
		require.NoError(t, err)
		require.NoError(t, m.To(dev, nn.Seed(1), nn.WithAllocator(alloc)))
		nn.Eval(m)
		cache, err := m.Cache(dev, 2, nn.WithAllocator(alloc))
		require.NoError(t, err)
		tokens := []int64{1, 7, 3, 10, 2, 0, 4, 9, 5, 6, 8, 3, 3, 2, 1, 0}
		run := func(f func(x *autograd.Variable) *autograd.Variable) []float64 {
			g := autograd.NewGraph(dev, autograd.NoGrad(), autograd.WithAllocator(alloc))
			defer g.Release()
			v, err := f(autograd.FromSlice(g, tokens, 2, 8)).Float64s()
			require.NoError(t, err)
			return v
		}
		first := 0
		for _, n := range []int{4, 1, 3} {
			part := func(v *autograd.Variable) *autograd.Variable { return v.Narrow(1, first, n) }
			whole := run(func(x *autograd.Variable) *autograd.Variable { return part(m.Forward(x)) })
			require.InDeltaSlice(t, whole, run(func(x *autograd.Variable) *autograd.Variable { return m.Decode(part(x), cache) }), 1e-5)
			first += n
		}
		cache.Release()
		m.Release()
		require.Zero(t, alloc.Stats().AllocatedBytes.All.Current)
	}
}
