package nn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/tensor"
)

// averageStep is what PyTorch computed: see testdata/average.py.
type averageStep struct {
	Model, Average map[string][]float64
	NAveraged      int `json:"n_averaged"`
}

func TestAverages_AreThoseOfPyTorch(t *testing.T) {
	text, err := os.ReadFile("testdata/average.json")
	require.NoError(t, err)
	var cases map[string][]averageStep
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 3)
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			r := onHost(t)
			m := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
			r.place(m, nn.DType(tensor.Float64))
			var opts []nn.AverageOption
			if strings.HasSuffix(name, "buffers") {
				opts = append(opts, nn.AverageBuffers())
			}
			average := func() (*nn.AveragedModel[*nn.SequentialModule], error) { return nn.EMA(m, 0.9, opts...) }
			if name == "swa" {
				average = func() (*nn.AveragedModel[*nn.SequentialModule], error) { return nn.SWA(m) }
			}
			a, err := average()
			require.NoError(t, err)
			defer a.Release()
			for _, s := range steps {
				for _, n := range nn.NamedState(m) {
					if v, ok := s.Model[n.Name]; ok {
						setValues(t, r, n, v)
					}
				}
				before := r.allocated()
				require.NoError(t, a.Update(m))
				require.Equal(t, before, r.allocated(), "in place")
				found := 0
				for _, n := range nn.NamedState(a) {
					if want, ok := s.Average[n.Name]; ok {
						require.InDeltaSlice(t, want, valuesOf(t, n.Parameter), 1e-14, n.Name)
						found++
					}
				}
				require.Equal(t, len(s.Average), found)
				require.Equal(t, []float64{float64(s.NAveraged)}, valuesOf(t, a.NAveraged))
			}
		})
	}
}

func setValues(t *testing.T, r *rig, n nn.Named, v []float64) {
	t.Helper()
	x, err := tensor.FromSlice(r.exec, v, n.Parameter.Shape()...)
	require.NoError(t, err)
	defer x.Release()
	require.NoError(t, n.Parameter.Tensor().CopyFrom(x))
}

func TestEMA_GoesOnFromAFile(t *testing.T) {
	r := onHost(t)
	m := nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
	r.place(m, nn.Seed(1))
	a, err := nn.EMA(m, 0.5)
	require.NoError(t, err)
	defer a.Release()
	require.Equal(t, []string{"module.0.weight", "module.0.bias", "module.1.weight", "module.1.bias", "n_averaged", "module.1.running_mean",
		"module.1.running_var", "module.1.num_batches_tracked"}, names(nn.NamedState(a)), "PyTorch's names")
	for i := range 3 {
		for _, p := range m.Parameters() {
			require.NoError(t, p.Tensor().FillInPlace(float64(i)))
		}
		require.NoError(t, a.Update(m))
	}
	var file bytes.Buffer
	require.NoError(t, nn.Save(&file, a))
	var run bytes.Buffer
	require.NoError(t, checkpoint.New().Add("ema", checkpoint.Module(a)).Write(context.Background(), &run))
	for _, load := range []func(b *nn.AveragedModel[*nn.SequentialModule]) error{
		func(b *nn.AveragedModel[*nn.SequentialModule]) error { return nn.Load(&file, b) },
		func(b *nn.AveragedModel[*nn.SequentialModule]) error {
			return checkpoint.New().Add("ema", checkpoint.Module(b)).Read(context.Background(), &run)
		},
	} {
		b, err := nn.EMA(m, 0.5)
		require.NoError(t, err)
		require.NoError(t, load(b))
		require.NoError(t, b.Update(m))
		require.Equal(t, 1.625, valuesOf(t, b.Module.Parameters()[0])[0], "((0+1)/2+2)/2 is 1.25, and half way to 2")
		require.Equal(t, []float64{4}, valuesOf(t, b.NAveraged))
		b.Release()
	}
}

func TestEMA_OfAModelWithoutMemoryAndOfAnotherType(t *testing.T) {
	r := onHost(t)
	m := nn.Linear(2, 1)
	a, err := nn.EMA(m, 0.5)
	require.NoError(t, err)
	var bad *nn.ArgumentError
	require.ErrorAs(t, a.Update(m), &bad)
	r.place(a, nn.DType(tensor.Float64))
	require.ErrorAs(t, a.Update(m), &bad)
	r.place(m, nn.DType(tensor.Float16))
	for i := range 2 {
		require.NoError(t, m.Weight.Tensor().FillInPlace(float64(i)))
		before := r.allocated()
		require.NoError(t, a.Update(m))
		require.Equal(t, before, r.allocated())
	}
	require.Equal(t, []float64{0.5, 0.5}, valuesOf(t, a.Module.Weight))
	require.Contains(t, a.String(), "(module): Linear(in_features=2")
}

func TestEMA_RefusesWhatIsNotTheModel(t *testing.T) {
	r := onHost(t)
	m, other, wide := nn.Sequential(nn.Linear(2, 1)), nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1)), nn.Sequential(nn.Linear(3, 1))
	for _, l := range []nn.Module{m, other, wide} {
		r.place(l)
	}
	a, err := nn.EMA(m, 0.5)
	require.NoError(t, err)
	defer a.Release()
	require.EqualError(t, a.Update(other), "nn: Update: the model has 4 parameters and buffers, the average 2")
	require.EqualError(t, a.Update(wide), "nn: Update: 0.weight has shape [1, 3] in the model and [1, 2] in the average")
	require.EqualError(t, a.Update(nn.Sequential()), "nn: Update: the model has no 0.weight, which the average has")
	require.EqualError(t, a.Update(nil), "nn: Update: the model is nil")
	require.Equal(t, []float64{0}, valuesOf(t, a.NAveraged))
	var bad *nn.ArgumentError
	for _, decay := range []float64{-0.1, 1.1, math.NaN()} {
		_, err = nn.EMA(m, decay)
		require.ErrorAs(t, err, &bad)
	}
	require.ErrorAs(t, new(nn.AveragedModel[*nn.LinearLayer]).Update(nil), &bad)
	require.ErrorAs(t, (*nn.AveragedModel[*nn.LinearLayer])(nil).Update(nil), &bad)
	require.Equal(t, "nil", (*nn.AveragedModel[*nn.LinearLayer])(nil).String())
}

func TestEMA_ThatFailsKeepsNothing(t *testing.T) {
	r := onSim(t)
	m := nn.Linear(1<<14, 1<<13) // 512 MiB of 1 GiB
	require.NoError(t, m.To(r.dev, nn.WithAllocator(r.alloc)))
	defer m.Release()
	before := r.allocated()
	_, err := nn.EMA(m, 0.5)
	require.Error(t, err)
	require.Equal(t, before, r.allocated())
}

func TestRelease_GivesBackWhatAModuleWithAMistakeHas(t *testing.T) {
	r := onHost(t)
	l := nn.Linear(2, 2)
	r.place(nn.Sequential(l))
	l.RegisterBufferField("[[", nil)
	l.Release()
	require.Zero(t, r.allocated())
}
