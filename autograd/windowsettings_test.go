package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

func TestLosses_KeepNothingOfAReductionTheyDoNotKnow(t *testing.T) {
	r := newRig(t, host.New())
	x := r.tensor([]float64{1, 2, 3, 4}, 2, 2)
	classes := r.ints([]int64{0, 1}, 2)
	for name, loss := range map[string]func(x, classes *autograd.Variable, of autograd.Reduction) *autograd.Variable{
		"mse": func(x, _ *autograd.Variable, of autograd.Reduction) *autograd.Variable { return x.MSELoss(x, of) },
		"cross entropy": func(x, classes *autograd.Variable, of autograd.Reduction) *autograd.Variable {
			return x.CrossEntropy(classes, autograd.Reduce(of))
		},
		"nll": func(x, classes *autograd.Variable, of autograd.Reduction) *autograd.Variable {
			return x.NLLLoss(classes, autograd.Reduce(of))
		},
	} {
		for _, of := range []autograd.Reduction{autograd.BatchMeanReduction, 9} {
			g := r.graph()
			in, target := g.Input(x), g.Input(classes)
			base := r.allocated()
			loss(in, target, of)
			require.ErrorContains(t, g.Err(), of.String()+" is not a reduction of this loss", name)
			require.Equal(t, base, r.allocated(), name) // before the graph is released, which would take it too
			g.Release()
		}
	}
}

func TestWindows_AreOfNumbersThatFit(t *testing.T) {
	r := newRig(t, host.New())
	image := r.tensor(make([]float64, 2*8*8), 1, 2, 8, 8)
	volume := r.tensor(make([]float64, 2*4*4*4), 1, 2, 4, 4, 4)
	weight := r.tensor(make([]float64, 2*2*8), 2, 2, 2, 2, 2)
	const large = 1 << 30
	for _, c := range []struct {
		name string
		x    *tensor.Tensor
		f    func(x, w *autograd.Variable) *autograd.Variable
		want string
	}{
		{"kernel", image, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.Unfold(autograd.Window{Kernel: []int{0}})
		}, "[0]; it is at least 1"},
		{"stride", image, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.Unfold(autograd.Window{Kernel: []int{2}, Stride: []int{1, 0}})
		}, "stride is [1 0]; it is at least 1"},
		{"padding", image, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.Unfold(autograd.Window{Kernel: []int{2}, Padding: []int{-1}})
		}, "padding is [-1]; it is at least 0"},
		{"large", image, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.Unfold(autograd.Window{Kernel: []int{2}, Dilation: []int{large}})
		}, "dilation is [1073741824]; it is at least 1 and less than 1073741824"},
		{"LPPool2d", image, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.LPPool2d(2, tensor.Pool{Kernel: []int{-2}})
		}, "the kernel is [-2]; it is at least 1"},
		{"MaxPool3d", volume, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.MaxPool3d(tensor.Pool{Kernel: []int{2}, Dilation: []int{0}})
		}, "dilation is [0]; it is at least 1"},
		{"AvgPool3d", volume, func(x, _ *autograd.Variable) *autograd.Variable {
			return x.AvgPool3d(tensor.Pool{Kernel: []int{2}, Stride: []int{1, 1, -1}})
		}, "stride is [1 1 -1]; it is at least 1"},
		{"Conv3d", volume, func(x, w *autograd.Variable) *autograd.Variable {
			return x.Conv3d(w, nil, tensor.Conv{Stride: []int{0}})
		}, "[0]; it is at least 1"},
		{"ConvTranspose3d", volume, func(x, w *autograd.Variable) *autograd.Variable {
			return x.ConvTranspose3d(w, nil, tensor.ConvTranspose{Padding: []int{0, 0, large}})
		}, "[0 0 1073741824]; it is at least 0"},
		{"count", volume, func(x, w *autograd.Variable) *autograd.Variable {
			return x.Conv3d(w, nil, tensor.Conv{Stride: []int{1, 2}})
		}, "[1 2]; it has 1 number or 3"},
	} {
		g := r.graph()
		x, w := g.Input(c.x), g.Input(weight)
		base := r.allocated()
		c.f(x, w)
		var wrong *tensor.ValueError
		require.ErrorAs(t, g.Err(), &wrong, c.name)
		require.ErrorContains(t, g.Err(), c.want, c.name)
		require.Equal(t, base, r.allocated(), c.name)
		g.Release()
	}
}
