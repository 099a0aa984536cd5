package peer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/benchmarks/internal/timing"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	_ "github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// exec is a host device of the test's own.
func exec(t *testing.T) tensor.Exec {
	t.Helper()
	dev, err := device.Open("host")
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	})
	e, err := tensor.On(dev)
	require.NoError(t, err)
	return e
}

func TestMeasure_CountsTheMemoryOfACall(t *testing.T) {
	e := exec(t)
	kept, err := tensor.Zeros(e, tensor.Float32, 1<<10)
	require.NoError(t, err)
	defer kept.Release()
	m, err := Measure(e, 3, time.Microsecond, 1e6, func() error {
		x, err := tensor.Zeros(e, tensor.Float32, 1<<12)
		x.Release()
		return err
	})
	require.NoError(t, err)
	require.Equal(t, int64(1<<14), *m.Peak)
	require.InEpsilon(t, 1/m.Microseconds, m.TFLOPS, 1e-9)
	require.Zero(t, m.Host, "the host device works while the call is issued")
}

func TestMeasured_SaysWhenTheHostIsTheLimit(t *testing.T) {
	require.True(t, newMeasured(1, []float64{1e-5}, 0.95e-5, nil).HostBound)
	require.False(t, newMeasured(1, []float64{1e-5}, 0.5e-5, nil).HostBound)
	require.False(t, newMeasured(1, []float64{1e-5}, 0, nil).HostBound)
}

func TestFill_IsTheFormulaAtEachPlace(t *testing.T) {
	e := exec(t)
	rounding := map[tensor.DType]float64{tensor.BFloat16: 1.0 / 512}
	for _, n := range []int{6, period + 10} {
		for _, d := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			x, err := Fill(e, d, 2, n/2, 2)
			require.NoError(t, err)
			require.Equal(t, tensor.Shape{n / 2, 2}, x.Shape())
			wide, err := x.To(tensor.Float32)
			require.NoError(t, err)
			got, err := tensor.ToSlice[float32](wide)
			require.NoError(t, err)
			x.Release()
			wide.Release()
			for i, v := range got {
				want := value(2, uint64(i%period))
				if apart := math.Abs(float64(v - want)); apart > rounding[d] {
					require.InDelta(t, want, v, rounding[d], "element %d of %d %s", i, n, d)
				}
			}
		}
	}
	require.NotEqual(t, value(0, 5), value(1, 5))
}

func TestSample_TakesPlacesOfTheLogicalOrder(t *testing.T) {
	e := exec(t)
	numbers := make([]float32, 3000)
	for i := range numbers {
		numbers[i] = float32(i)
	}
	x, err := tensor.FromSlice(e, numbers, 50, 60)
	require.NoError(t, err)
	defer x.Release()
	got, err := Sample(x)
	require.NoError(t, err)
	require.Len(t, got, samples)
	require.InDelta(t, prime%3000, got[1], 0)
	turned, err := x.Transpose(0, 1)
	require.NoError(t, err)
	defer turned.Release()
	got, err = Sample(turned)
	require.NoError(t, err)
	at := prime % 3000
	require.InDelta(t, at%50*60+at/50, got[1], 0)
}

func TestDifference_IsInPartsOfTheLargest(t *testing.T) {
	list := func(v ...float64) (p []*float64) {
		for _, x := range v {
			p = append(p, &x)
		}
		return p
	}
	require.InDelta(t, 0.25, difference([]float64{1, -3}, list(1, -4)), 1e-12)
	require.Zero(t, difference([]float64{0}, list(0)))
	require.InDelta(t, NotFinite, difference([]float64{1}, list(0)), 0)
	require.InDelta(t, NotFinite, difference([]float64{math.NaN()}, list(0)), 0)
	require.InDelta(t, NotFinite, difference([]float64{1}, []*float64{nil}), 0)
	require.InDelta(t, NotFinite, difference([]float64{1}, list(1, 2)), 0)
	require.InDelta(t, NotFinite, difference(nil, nil), 0)
}

func TestResult_ComparesWithTheFastestFairWay(t *testing.T) {
	peak := int64(4 << 10)
	r := NewResult(newMeasured(1e9, []float64{4e-3}, 0, &peak), 1e9, Samples{"y": {1, 2}})
	one, two := 1.0, 2.5
	fair := func(by string) bool { return by != "unfair" }
	r.Add(&Line{By: "slow", Seconds: []float64{8e-3}}, fair)
	r.Add(&Line{By: "fast", Seconds: []float64{3e-3, 2e-3, 1e-3}, Issued: 1e-3, Peak: &peak, Samples: map[string][]*float64{"y": {&one, &two}}}, fair)
	r.Add(&Line{By: "unfair", Seconds: []float64{1e-6}}, fair)
	r.Add(&Line{By: "none"}, fair)
	require.Equal(t, "fast", r.Best)
	require.InEpsilon(t, 2, r.OfPyTorch, 1e-9)
	require.InEpsilon(t, 0.2, *r.PyTorch["fast"].Difference, 1e-9)
	require.InEpsilon(t, 0.5, r.PyTorch["fast"].TFLOPS, 1e-9)
	require.Nil(t, r.PyTorch["slow"].Difference)
	require.Len(t, r.PyTorch, 3)
	ways := []string{"slow", "fast", "none"}
	require.Equal(t, "4000.0\t(4000.0-4000.0)\t0.25\t-\t4KiB\t8000.0\t2000.0\t-\tfast\t4KiB\t2.0e-01\t2.00\t", r.Cells(ways))
	require.Equal(t, strings.Count(Head(ways), "\t"), strings.Count(r.Cells(ways), "\t"))
	alone := NewResult(Measured{Spread: timing.Of([]float64{1}), Host: 1e6, HostBound: true}, 1, nil)
	require.Equal(t, strings.Count(Head(ways), "\t"), strings.Count(alone.Cells(ways), "\t"))
	require.Contains(t, alone.Cells(ways), "1000000.0 bound\t-\t")
	require.Equal(t, strings.Count(Head(nil), "\t"), strings.Count(alone.Cells(nil), "\t"))
}

// The script's half of the formula gives the same elements and takes the same samples, if there is a PyTorch to ask.
func TestFill_IsTheScriptsFormula(t *testing.T) {
	e := exec(t)
	const script = `
torch = open_torch("cpu")
t = filled(torch, "cpu", torch.float32, 3, 1100, 1000)
emit(results=sample(torch, t.transpose(0, 1)), first=t.reshape(-1)[:9].tolist())
`
	var out struct {
		Results []*float64
		First   []float64
	}
	if err := torch.Run(torch.Python, torch.Peer+script, nil, &out); err != nil {
		t.Skip(err)
	}
	x, err := Fill(e, tensor.Float32, 3, 1100, 1000)
	require.NoError(t, err)
	defer x.Release()
	turned, err := x.Transpose(0, 1)
	require.NoError(t, err)
	defer turned.Release()
	got, err := Sample(turned)
	require.NoError(t, err)
	require.Zero(t, difference(got, out.Results))
	for i, v := range out.First {
		require.InDelta(t, value(3, uint64(i)), v, 0)
	}
}

// A script's samples of what is no number are null, which JSON can hold.
func TestLine_ReadsWhatIsNotFinite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "python")
	line := `{"version": "PyTorch 9", "results": [{"by": "a", "seconds": [1], "peak": 512, "samples": {"y": [null, 2]}}]}`
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\ncat >/dev/null\necho '"+line+"'\n"), 0o755))
	var out struct{ Results []Line }
	require.NoError(t, torch.Run(file, "", nil, &out))
	r := NewResult(newMeasured(1, []float64{1}, 0, nil), 1, Samples{"y": {1, 2}})
	r.Add(&out.Results[0], func(string) bool { return true })
	require.InDelta(t, NotFinite, *r.PyTorch["a"].Difference, 0)
	_, err := json.Marshal(&r)
	require.NoError(t, err)
}
