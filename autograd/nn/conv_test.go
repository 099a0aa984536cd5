package nn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestDescriptionsOfImageLayers_ArePyTorchs(t *testing.T) {
	for want, m := range map[string]interface{ String() string }{
		"Conv1d(3, 4, kernel_size=(5,), stride=(1,))":                                                    nn.Conv1d(3, 4, 5),
		"Conv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, bias=False)":          nn.Conv2d(4, 6, 3, nn.Stride(2), nn.Padding(1), nn.Groups(2), nn.NoBias()),
		"Conv2d(3, 8, kernel_size=(3, 5), stride=(1, 1), padding=same)":                                  nn.Conv2d(3, 8, 3, nn.KernelSize(3, 5), nn.PaddingSame()),
		"Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 2), dilation=(2, 2))":               nn.Conv2d(3, 8, 3, nn.Dilation(2), nn.Padding(1, 2)),
		"ConvTranspose1d(4, 2, kernel_size=(3,), stride=(2,), output_padding=(1,))":                      nn.ConvTranspose1d(4, 2, 3, nn.Stride(2), nn.OutputPadding(1)),
		"ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2, bias=False)": nn.ConvTranspose2d(4, 6, 3, nn.Stride(2), nn.Padding(1), nn.Groups(2), nn.NoBias()),
		"MaxPool1d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)":                     nn.MaxPool1d(2),
		"MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=True)":                      nn.MaxPool2d(3, nn.Stride(2), nn.Padding(1), nn.CeilMode()),
		"MaxPool2d(kernel_size=(3, 2), stride=(3, 2), padding=0, dilation=1, ceil_mode=False)":           nn.MaxPool2d(3, nn.KernelSize(3, 2)),
		"AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))":                                         nn.AvgPool1d(2),
		"AvgPool2d(kernel_size=(3, 2), stride=2, padding=1)":                                             nn.AvgPool2d(3, nn.KernelSize(3, 2), nn.Stride(2), nn.Padding(1)),
		"AdaptiveAvgPool1d(output_size=3)":                                                               nn.AdaptiveAvgPool1d(3),
		"AdaptiveAvgPool2d(output_size=(1, 2))":                                                          nn.AdaptiveAvgPool2d(1, 2),
		"AdaptiveMaxPool1d(output_size=2)":                                                               nn.AdaptiveMaxPool1d(2),
		"AdaptiveMaxPool2d(output_size=2)":                                                               nn.AdaptiveMaxPool2d(2),
		"Upsample(scale_factor=2.0, mode='nearest')":                                                     nn.Upsample(nn.Nearest, tensor.Upsample{Scale: []float64{2}}),
		"Upsample(scale_factor=(1.5, 2.0), mode='bilinear')":                                             nn.Upsample(nn.Bilinear2d, tensor.Upsample{Scale: []float64{1.5, 2}}),
		"Upsample(size=(3, 4), mode='bilinear')":                                                         nn.Upsample(nn.Bilinear2d, tensor.Upsample{Size: []int{3, 4}}),
	} {
		require.Equal(t, want, m.String())
	}
}

func TestConvolutions_StartUniformByTheirFanIn(t *testing.T) {
	r := onHost(t)
	for _, c := range []struct {
		m     nn.Layer
		shape tensor.Shape
		fan   float64
	}{
		{nn.Conv1d(40, 60, 5), tensor.Shape{60, 40, 5}, 200},
		{nn.Conv2d(40, 60, 3, nn.Groups(2)), tensor.Shape{60, 20, 3, 3}, 180},
		{nn.ConvTranspose1d(60, 40, 5), tensor.Shape{60, 40, 5}, 200},
		{nn.ConvTranspose2d(60, 40, 3, nn.Groups(4), nn.KernelSize(3, 5)), tensor.Shape{60, 10, 3, 5}, 150},
	} {
		r.place(c.m, nn.Seed(1))
		named := nn.NamedParameters(c.m)
		require.Equal(t, []string{"weight", "bias"}, []string{named[0].Name, named[1].Name})
		require.Equal(t, c.shape, named[0].Parameter.Shape())
		bound := 1 / math.Sqrt(c.fan)
		requireUniform(t, valuesOf(t, named[0].Parameter), -bound, bound)
		_, _, lo, hi := moments(valuesOf(t, named[1].Parameter))
		require.True(t, lo >= -bound && hi < bound && hi-lo > bound)
	}
	require.Nil(t, nn.Conv2d(1, 1, 1, nn.NoBias()).Bias)
	l := nn.Conv2d(2, 2, 1, nn.WeightInit(nn.Constant(3)), nn.BiasInit(nn.Zeros))
	r.place(l)
	require.Equal(t, []float64{3, 3, 3, 3}, valuesOf(t, l.Weight))
	require.Equal(t, []float64{0, 0}, valuesOf(t, l.Bias))
}

func TestImageLayers_AreTheOperationsOfAutograd(t *testing.T) {
	r := onHost(t)
	data := make([]float32, 2*4*6*5)
	for i := range data {
		data[i] = float32(math.Sin(float64(7 * i)))
	}
	image, line := r.tensor(data, 2, 4, 6, 5), r.tensor(data, 2, 4, 30)
	type unary = func(v *autograd.Variable) *autograd.Variable
	conv1, conv2 := nn.Conv1d(4, 6, 3, nn.Stride(2), nn.Groups(2)), nn.Conv2d(4, 3, 3, nn.Padding(1), nn.NoBias())
	turned1, turned2 := nn.ConvTranspose1d(4, 3, 2, nn.NoBias()), nn.ConvTranspose2d(4, 6, 3, nn.Stride(2), nn.OutputPadding(1, 0), nn.Dilation(2))
	three := tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}}
	excluded := three
	excluded.CeilMode, excluded.ExcludePadding = true, true
	for _, c := range []struct {
		m    nn.Layer
		x    *tensor.Tensor
		want unary
	}{
		{conv1, line, func(v *autograd.Variable) *autograd.Variable {
			g := v.Graph()
			return v.Conv1d(g.Param(conv1.Weight), g.Param(conv1.Bias), tensor.Conv{Stride: []int{2}, Groups: 2})
		}},
		{conv2, image, func(v *autograd.Variable) *autograd.Variable {
			return v.Conv2d(v.Graph().Param(conv2.Weight), nil, tensor.Conv{Padding: []int{1}})
		}},
		{turned1, line, func(v *autograd.Variable) *autograd.Variable {
			return v.ConvTranspose1d(v.Graph().Param(turned1.Weight), nil, tensor.ConvTranspose{})
		}},
		{turned2, image, func(v *autograd.Variable) *autograd.Variable {
			g := v.Graph()
			return v.ConvTranspose2d(g.Param(turned2.Weight), g.Param(turned2.Bias),
				tensor.ConvTranspose{Stride: []int{2}, OutputPadding: []int{1, 0}, Dilation: []int{2}})
		}},
		{nn.MaxPool1d(3, nn.Stride(2), nn.Padding(1)), line, func(v *autograd.Variable) *autograd.Variable { return v.MaxPool1d(three) }},
		{nn.MaxPool2d(3, nn.Stride(2), nn.Padding(1)), image, func(v *autograd.Variable) *autograd.Variable { return v.MaxPool2d(three) }},
		{nn.AvgPool1d(3, nn.Stride(2), nn.Padding(1)), line, func(v *autograd.Variable) *autograd.Variable { return v.AvgPool1d(three) }},
		{nn.AvgPool2d(3, nn.Stride(2), nn.Padding(1), nn.CeilMode(), nn.ExcludePadding()), image,
			func(v *autograd.Variable) *autograd.Variable { return v.AvgPool2d(excluded) }},
		{nn.AvgPool2d(2, nn.DivisorOverride(3)), image, func(v *autograd.Variable) *autograd.Variable {
			return v.AvgPool2d(tensor.Pool{Kernel: []int{2}, DivisorOverride: 3})
		}},
		{nn.AdaptiveMaxPool1d(4), line, func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveMaxPool1d(4) }},
		{nn.AdaptiveMaxPool2d(4, 2), image, func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveMaxPool2d(4, 2) }},
		{nn.AdaptiveAvgPool1d(4), line, func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveAvgPool1d(4) }},
		{nn.AdaptiveAvgPool2d(1), image, func(v *autograd.Variable) *autograd.Variable { return v.AdaptiveAvgPool2d(1) }},
		{nn.Upsample(nn.Nearest, tensor.Upsample{Size: []int{7}}), image, func(v *autograd.Variable) *autograd.Variable {
			return v.UpsampleNearest2d(tensor.Upsample{Size: []int{7}})
		}},
		{nn.Upsample(nn.Bilinear2d, tensor.Upsample{Size: []int{7}, AlignCorners: true}), image, func(v *autograd.Variable) *autograd.Variable {
			return v.UpsampleBilinear2d(tensor.Upsample{Size: []int{7}, AlignCorners: true})
		}},
	} {
		r.place(c.m, nn.Seed(5))
		g := r.graph()
		v := g.Input(c.x)
		got, want := c.m.Forward(v), c.want(v)
		require.NoError(t, g.Err())
		require.Equal(t, want.Shape(), got.Shape())
		a, err := got.Float64s()
		require.NoError(t, err)
		b, err := want.Float64s()
		require.NoError(t, err)
		require.Equal(t, b, a)
		g.Release()
	}
}

func TestConv2d_OfTooManyStridesIsAnErrorOfTheGraph(t *testing.T) {
	r := onHost(t)
	m := nn.Conv2d(4, 6, 2, nn.Stride(1, 2, 3))
	r.place(m)
	g := r.graph()
	defer g.Release()
	m.Forward(g.Input(r.tensor(make([]float32, 4*9), 1, 4, 3, 3)))
	require.Error(t, g.Err())
}

// PyTorch saves the image of MaxPool2d and numbers of 8 bytes.
func TestMaxPool2d_SavesOneByteForEachResult(t *testing.T) {
	r := onSim(t)
	base := r.allocated()
	g := r.graph()
	x := g.Input(r.tensor(make([]float32, 64*64*16), 16, 1, 64, 64), autograd.RequiresGrad())
	held := r.allocated()
	out := nn.MaxPool2d(2).Forward(x)
	require.EqualValues(t, 4*32*32*16+32*32*16, r.allocated()-held, "the results, and their numbers")
	require.NoError(t, out.Sum(nil, false).Backward())
	g.Release()
	require.Positive(t, r.allocated()-base)
}

// A block of a residual network: the result of each layer is saved once, by whichever of its neighbours needs it.
func TestConvolutionalBlock_HoldsOnlyWhatIsSaved(t *testing.T) {
	r := onSim(t)
	const image = 4 * 2 * 8 * 16 * 16
	m := nn.Sequential(nn.Conv2d(8, 8, 3, nn.Padding(1)), nn.ReLU(), nn.Conv2d(8, 8, 3, nn.Padding(1)), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
	r.place(m)
	x := r.tensor(make([]float32, 2*8*16*16), 2, 8, 16, 16)
	base := r.allocated()
	g := r.graph()
	out := m.Forward(g.Input(x))
	require.EqualValues(t, base+2*image+512, r.allocated(), "two activations, each saved by its ReLU and the next convolution, and the result")
	require.NoError(t, out.Sum(nil, false).Backward())
	g.Release()
}
