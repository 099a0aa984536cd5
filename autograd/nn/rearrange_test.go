package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLayersThatRearrange_AreOperations_AndPrintAsPyTorchDoes(t *testing.T) {
	r := onHost(t)
	data := make([]float32, 4*8*6)
	for i := range data {
		data[i] = float32(i*i%17) - 8
	}
	image, volume, line := r.tensor(data, 1, 8, 4, 6), r.tensor(data, 1, 2, 4, 4, 6), r.tensor(data, 2, 8, 12)
	settings := autograd.Window{Kernel: []int{2, 3}, Padding: []int{1}, Stride: []int{2}}
	slide := []nn.WindowOption{nn.KernelSize(2, 3), nn.Padding(1), nn.Stride(2)}
	type variable = *autograd.Variable
	up := tensor.Upsample{Scale: []float64{2}}
	for text, c := range map[string]struct {
		m    *nn.FuncModule
		x    *tensor.Tensor
		want func(x variable) variable
	}{
		"PixelShuffle(upscale_factor=2)":            {nn.PixelShuffle(2), image, func(x variable) variable { return x.PixelShuffle(2) }},
		"PixelUnshuffle(downscale_factor=2)":        {nn.PixelUnshuffle(2), image, func(x variable) variable { return x.PixelUnshuffle(2) }},
		"ChannelShuffle(groups=2)":                  {nn.ChannelShuffle(2), image, func(x variable) variable { return x.ChannelShuffle(2) }},
		"Unflatten(dim=1, unflattened_size=(2, 4))": {nn.Unflatten(1, 2, 4), line, func(x variable) variable { return x.Unflatten(1, 2, 4) }},
		"GLU(dim=1)": {nn.GLU(1), image, func(x variable) variable { return x.GLU(1) }},
		"MaxPool3d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)": {nn.MaxPool3d(2), volume,
			func(x variable) variable { return x.MaxPool3d(tensor.Pool{Kernel: []int{2}}) }},
		"AvgPool3d(kernel_size=2, stride=1, padding=1)": {nn.AvgPool3d(2, nn.Stride(1), nn.Padding(1)), volume,
			func(x variable) variable {
				return x.AvgPool3d(tensor.Pool{Kernel: []int{2}, Stride: []int{1}, Padding: []int{1}})
			}},
		"AdaptiveAvgPool3d(output_size=(1, 2, 3))":     {nn.AdaptiveAvgPool3d(1, 2, 3), volume, func(x variable) variable { return x.AdaptiveAvgPool3d(1, 2, 3) }},
		"AdaptiveMaxPool3d(output_size=2)":             {nn.AdaptiveMaxPool3d(2), volume, func(x variable) variable { return x.AdaptiveMaxPool3d(2) }},
		"Softmin(dim=-1)":                              {nn.Softmin(-1), line, func(x variable) variable { return x.Softmin(-1) }},
		"Upsample(scale_factor=2.0, mode='linear')":    {nn.Upsample(nn.Linear1d, up), line, func(x variable) variable { return x.UpsampleLinear1d(up) }},
		"Upsample(scale_factor=2.0, mode='bicubic')":   {nn.Upsample(nn.Bicubic, up), image, func(x variable) variable { return x.UpsampleBicubic2d(up) }},
		"Upsample(scale_factor=2.0, mode='trilinear')": {nn.Upsample(nn.Trilinear, up), volume, func(x variable) variable { return x.UpsampleTrilinear3d(up) }},
		"Upsample(scale_factor=2.0, mode='nearest')":   {nn.Upsample(nn.Nearest, up), volume, func(x variable) variable { return x.UpsampleNearest3d(up) }},
		"Unfold(kernel_size=(2, 3), dilation=1, padding=1, stride=2)": {nn.Unfold(2, slide...), image,
			func(x variable) variable { return x.Unfold(settings) }},
		"Fold(output_size=(2, 4), kernel_size=2, dilation=1, padding=0, stride=1)": {nn.Fold(2, 4, 2), r.tensor(data[:24], 1, 8, 3),
			func(x variable) variable { return x.Fold(2, 4, autograd.Window{Kernel: []int{2}}) }},
		"ZeroPad2d((1, 1, 1, 1))":                        {nn.ZeroPad2d(1), image, func(x variable) variable { return x.Pad([]int{1, 1, 1, 1}, tensor.PadConstant, 0) }},
		"ConstantPad1d(padding=(1, -2), value=3.5)":      {nn.ConstantPad1d(3.5, 1, -2), line, func(x variable) variable { return x.Pad([]int{1, -2}, tensor.PadConstant, 3.5) }},
		"ConstantPad2d(padding=(0, 0, 1, 2), value=0.5)": {nn.ConstantPad2d(0.5, 0, 0, 1, 2), image, func(x variable) variable { return x.Pad([]int{0, 0, 1, 2}, tensor.PadConstant, 0.5) }},
		"ConstantPad3d(padding=(1, 1, 1, 1, 1, 1), value=-1.0)": {nn.ConstantPad3d(-1, 1), volume,
			func(x variable) variable { return x.Pad([]int{1, 1, 1, 1, 1, 1}, tensor.PadConstant, -1) }},
		"ReflectionPad1d((2, 1))":              {nn.ReflectionPad1d(2, 1), line, func(x variable) variable { return x.Pad([]int{2, 1}, tensor.PadReflect, 0) }},
		"ReflectionPad2d((1, 1, 1, 1))":        {nn.ReflectionPad2d(1), image, func(x variable) variable { return x.Pad([]int{1, 1, 1, 1}, tensor.PadReflect, 0) }},
		"ReflectionPad3d((1, 1, 1, 1, 1, 1))":  {nn.ReflectionPad3d(1), volume, func(x variable) variable { return x.Pad([]int{1, 1, 1, 1, 1, 1}, tensor.PadReflect, 0) }},
		"ReplicationPad1d((2, 1))":             {nn.ReplicationPad1d(2, 1), line, func(x variable) variable { return x.Pad([]int{2, 1}, tensor.PadReplicate, 0) }},
		"ReplicationPad2d((1, 1, 1, 1))":       {nn.ReplicationPad2d(1), image, func(x variable) variable { return x.Pad([]int{1, 1, 1, 1}, tensor.PadReplicate, 0) }},
		"ReplicationPad3d((1, 1, 1, 1, 1, 1))": {nn.ReplicationPad3d(1), volume, func(x variable) variable { return x.Pad([]int{1, 1, 1, 1, 1, 1}, tensor.PadReplicate, 0) }},
	} {
		g := r.graph()
		x := g.Input(c.x)
		got, want := c.m.Forward(x), c.want(x)
		require.NoError(t, g.Err(), text)
		require.Equal(t, text, c.m.String())
		require.Equal(t, want.Shape(), got.Shape(), text)
		a, err := got.Float64s()
		require.NoError(t, err)
		b, err := want.Float64s()
		require.NoError(t, err)
		require.Equal(t, b, a, text)
		g.Release()
	}
}

func TestPadding_RefusesAWrongNumberOfSides(t *testing.T) {
	require.ErrorContains(t, nn.Check(nn.ZeroPad2d(1, 2)), "ZeroPad2d")
	require.ErrorContains(t, nn.Check(nn.ReflectionPad1d()), "one is needed, or 2")
}

func TestConv3d_IsTheOperationOnItsParameters(t *testing.T) {
	r := onHost(t)
	m := nn.Conv3d(2, 4, 3, nn.Padding(1), nn.KernelSize(1, 3, 3), nn.Stride(2), nn.Groups(2))
	r.place(m)
	require.Equal(t, "Conv3d(2, 4, kernel_size=(1, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1), groups=2)", m.String())
	require.Equal(t, tensor.Shape{4, 1, 1, 3, 3}, m.Weight.Shape())
	g := r.graph()
	defer g.Release()
	x := g.RandN(tensor.Float32, 1, 2, 4, 4, 6)
	got, want := m.Forward(x), x.Conv3d(g.Param(m.Weight), g.Param(m.Bias), tensor.Conv{Stride: []int{2}, Padding: []int{1}, Groups: 2})
	require.NoError(t, g.Err())
	a, err := got.Float64s()
	require.NoError(t, err)
	b, err := want.Float64s()
	require.NoError(t, err)
	require.Equal(t, b, a)
	require.NoError(t, got.Sum(nil, false).Backward())
	require.NotNil(t, m.Weight.Grad())
}
