package nn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/tensor"
)

// bars are images of 8 by 8 with one bar, across (class 0) or down (class 1), at every place.
func bars() (images []float32, classes []int64) {
	for class := range int64(2) {
		for place := range 8 {
			image := make([]float32, 64)
			for i := range 8 {
				if class == 0 {
					image[place*8+i] = 1
				} else {
					image[i*8+place] = 1
				}
			}
			images, classes = append(images, image...), append(classes, class)
		}
	}
	return images, classes
}

func TestConvolutionalNetwork_LearnsWhichWayBarsLie(t *testing.T) {
	r := onHost(t)
	model := nn.Sequential(
		nn.Conv2d(1, 6, 3, nn.Padding(1)), nn.ReLU(), nn.MaxPool2d(2),
		nn.Conv2d(6, 6, 3, nn.Padding(1), nn.Groups(6)), nn.Conv2d(6, 8, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
	r.place(model, nn.Seed(4))
	opt := optim.Adam(model.Parameters(), optim.LR(0.02))
	defer opt.Release()
	images, classes := bars()
	x := r.tensor(images, 16, 1, 8, 8)
	y, err := tensor.FromSlice(r.exec, classes)
	require.NoError(t, err)
	defer y.Release()
	for range 60 {
		g := r.graph()
		loss := model.Forward(g.Input(x)).CrossEntropy(g.Input(y))
		require.NoError(t, loss.Backward())
		g.Release()
		require.NoError(t, opt.Step())
		opt.ZeroGrad()
	}
	g := r.graph(autograd.NoGrad())
	defer g.Release()
	got, err := model.Forward(g.Input(x)).ArgMax(1, false).Float64s()
	require.NoError(t, err)
	for i, class := range classes {
		require.EqualValues(t, class, got[i], "image %d", i)
	}
}
