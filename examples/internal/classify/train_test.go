package classify

import (
	"io"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/examples/internal/session"
	"github.com/cistern-ml/cistern/examples/mnist/dataset"
)

// witness is a model that notes the size of each batch, with a minus in evaluation mode.
type witness struct {
	nn.Base
	linear *nn.LinearLayer
	seen   []int
	test   func() // called by batches in evaluation mode, if it is not nil
}

func (w *witness) Forward(x *autograd.Variable) *autograd.Variable {
	n := x.Dim(0)
	if !w.linear.Training() {
		n = -n
		if w.test != nil {
			w.test()
		}
	}
	w.seen = append(w.seen, n)
	return w.linear.Forward(x)
}

// blank is a set of images without ink.
func blank(n int) dataset.Set {
	return dataset.Set{Images: make([]uint8, 4*n), Labels: make([]uint8, n), Rows: 2, Cols: 2}
}

func TestTrain_TestsInEvaluationMode(t *testing.T) {
	dev := sim.New(64 << 20)
	s, err := session.On(dev, 1)
	require.NoError(t, err)
	w := &witness{linear: nn.Linear(4, dataset.Classes)}
	nn.RegisterField(&w.Base, "linear", &w.linear)
	model := func(int, int) (nn.Layer, error) { return w, nil }
	_, err = Train(s, Options{Epochs: 2, Batch: 4, LR: 1}, model, blank(6), blank(5), io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []int{4, 2, -4, -1, 4, 2, -4, -1}, w.seen)
}

// Ctrl-C while the model is tested does not wait for the last image.
func TestTrain_InterruptedInTheTest_TellsWhatItHas(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself Ctrl-C there")
	}
	dev := sim.New(64 << 20)
	s, err := session.On(dev, 1)
	require.NoError(t, err)
	w := &witness{linear: nn.Linear(4, dataset.Classes)}
	nn.RegisterField(&w.Base, "linear", &w.linear)
	w.test = func() {
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Signal(os.Interrupt))
		<-s.Interrupt().Done()
	}
	model := func(int, int) (nn.Layer, error) { return w, nil }
	r, err := Train(s, Options{Epochs: 2, Batch: 4, LR: 1}, model, blank(4), blank(12), io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []int{4, -4}, w.seen)
	require.True(t, r.interrupted)
	require.Equal(t, 1, r.Steps)
}

func TestSchedule_GoesFromTheFirstStepToTheLast(t *testing.T) {
	for _, c := range []struct {
		schedule                 Schedule
		first, second, most, end float64
	}{
		{Linear, 0.1, 0.09, 0.1, 0.01},
		{OneCycle, 0.004, 0.052, 0.1, 0.1 / 25 / 1e4},
	} {
		opt := optim.AdamW(nil, optim.LR(0.1))
		rates := c.schedule.over(opt, 10)
		require.NoError(t, rates.Err())
		got := []float64{opt.LR(0)}
		for range 9 {
			require.NoError(t, rates.Step())
			got = append(got, opt.LR(0))
		}
		require.InDelta(t, c.first, got[0], 1e-12)
		require.InDelta(t, c.second, got[1], 1e-12)
		require.InDelta(t, c.most, slices.Max(got), 1e-12)
		require.InDelta(t, c.end, got[9], 1e-12)
	}
}
