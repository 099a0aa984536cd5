package fit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// small is a network whose activations matter: it takes 4 layers of width units.
func small(width int) fit.Program { return smallFor(width, fit.Trial.Steps) }

// smallFor is small with its own number of steps.
func smallFor(width int, steps func(fit.Trial) iter.Seq[int]) fit.Program {
	return func(ctx context.Context, t fit.Trial) error {
		var layers []nn.Layer
		for range 4 {
			var l nn.Layer = nn.Sequential(nn.Linear(width, 4*width), nn.GELU(), nn.Linear(4*width, width))
			if t.Checkpoint {
				l = nn.Checkpointed(l)
			}
			layers = append(layers, l)
		}
		m := nn.Sequential(append(layers, nn.Linear(width, 10))...)
		defer m.Release()
		if err := m.To(t.Device, nn.Seed(1)); err != nil {
			return err
		}
		opt := optim.AdamW(m.Parameters())
		defer opt.Release()
		for range steps(t) {
			if err := step(ctx, m, opt, t, width); err != nil {
				return err
			}
		}
		return nil
	}
}

func step(ctx context.Context, m nn.Layer, opt optim.Optimizer, t fit.Trial, width int) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g := autograd.NewGraph(t.Device)
	defer g.Release()
	const length = 32 // of a sample
	logits := m.Forward(g.Zeros(tensor.Float32, length*t.Batch, width))
	if err := logits.CrossEntropy(g.Zeros(tensor.Int64, length*t.Batch)).Backward(); err != nil {
		return err
	}
	if err := opt.Step(); err != nil {
		return err
	}
	opt.ZeroGrad()
	return nil
}

// times are so many steps, whatever a trial wants.
func times(n int) func(fit.Trial) iter.Seq[int] {
	return func(fit.Trial) iter.Seq[int] {
		return func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// nothingLeft checks that the devices of trials are gone.
func nothingLeft(t *testing.T) {
	t.Helper()
	before := len(memory.Allocators())
	t.Cleanup(func() { require.Len(t, memory.Allocators(), before, "allocators of trials") })
}

// fits runs the program as a trial does, by hand.
func fits(t *testing.T, capacity uint64, program fit.Program, trial fit.Trial) (ok bool, allocated, reserved int64) {
	t.Helper()
	dev := sim.New(capacity)
	defer func() { require.NoError(t, dev.Close()) }()
	a, err := memory.For(dev)
	require.NoError(t, err)
	require.NoError(t, a.(*memory.Caching).SetConfig(memory.Config{ExpandableSegments: trial.Expandable}))
	trial.Device = dev
	err = program(context.Background(), trial)
	if err != nil {
		require.ErrorIs(t, err, memory.ErrOutOfMemory)
	}
	stats := a.Stats()
	require.NoError(t, memory.Drop(dev))
	return err == nil, stats.AllocatedBytes.All.Peak, stats.ReservedBytes.All.Peak
}

func TestLargest_IsWhatTryingAllBatchesFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("tries hundreds of batches")
	}
	nothingLeft(t)
	const capacity = 44 * device.MiB
	report, err := fit.Largest(context.Background(), capacity, small(128), fit.Checkpointing())
	require.NoError(t, err)
	require.Len(t, report.Results, 4)
	for i, r := range report.Results {
		settings := fit.Settings{Precision: tensor.Float32, Checkpoint: i >= 2, Expandable: i%2 == 1}
		require.Equal(t, settings, fit.Settings{Precision: tensor.Float32, Checkpoint: r.Checkpoint, Expandable: r.Expandable})
		require.Equal(t, "float32", r.Precision)
		best, tried := 0, 0
		for batch := 1; batch <= 2*r.LargestBatch; batch++ {
			ok, allocated, reserved := fits(t, capacity, smallFor(128, times(20)), fit.Trial{Batch: batch, Settings: settings})
			if ok {
				best = batch
			}
			if batch == r.LargestBatch {
				require.True(t, ok)
				require.Equal(t, allocated, r.PeakAllocated)
				require.Equal(t, reserved, r.PeakReserved)
			}
			if r.TooLarge == batch {
				require.False(t, ok)
			}
			tried++
		}
		require.Equal(t, best, r.LargestBatch, "%v", settings)
		require.Greater(t, tried, 30)
		require.Less(t, r.Trials, 20)
		require.False(t, r.AtMax)
		require.True(t, r.Steady)
		require.Less(t, r.Steps, 20)
		require.ErrorIs(t, r.Err, memory.ErrOutOfMemory)
		require.LessOrEqual(t, uint64(r.PeakReserved), capacity)
		require.Greater(t, r.PerSample, int64(1000))
	}
	require.Greater(t, 2*report.Results[2].LargestBatch, 3*report.Results[0].LargestBatch, "checkpoints save memory")
}

// The figures are those of a device that computes, to the byte.
func TestLargest_FiguresAreThoseOfTheHost(t *testing.T) {
	report, err := fit.Largest(context.Background(), 96*device.MiB, small(32), fit.MaxBatch(3), fit.Checkpointing())
	require.NoError(t, err)
	for _, r := range report.Results {
		dev := host.New(host.Capacity(96 * device.MiB))
		a, err := memory.For(dev)
		require.NoError(t, err)
		require.NoError(t, a.(*memory.Caching).SetConfig(memory.Config{ExpandableSegments: r.Expandable}))
		require.NoError(t, smallFor(32, times(r.Steps))(context.Background(), fit.Trial{Device: dev, Batch: 3, Settings: fit.Settings{Checkpoint: r.Checkpoint}}))
		stats := a.Stats()
		require.Equal(t, stats.AllocatedBytes.All.Peak, r.PeakAllocated)
		require.Equal(t, stats.ReservedBytes.All.Peak, r.PeakReserved)
		require.NoError(t, memory.Drop(dev))
		require.NoError(t, dev.Close())
	}
}

// The parts are all that is allocated at the peak, to the byte.
func TestLargest_SaysWhatTheMemoryIsFor(t *testing.T) {
	report, err := fit.Largest(context.Background(), 96*device.MiB, small(128), fit.MaxBatch(2))
	require.NoError(t, err)
	r := report.Results[0]
	require.True(t, r.AtMax)
	require.Equal(t, 2, r.LargestBatch)
	parts, sum := map[string]int64{}, int64(0)
	for _, p := range r.AtPeak {
		parts[p.What] = int64(p.Bytes)
		sum += int64(p.Bytes)
	}
	require.Equal(t, r.PeakAllocated, sum)
	parameters := int64(4*(128*512+512+512*128+128)+128*10+10) * 4
	rounding := int64(18 * 512)
	require.InDelta(t, parameters, parts["parameters"], float64(rounding))
	require.InDelta(t, 2*parameters, parts["optimizer state"], float64(2*rounding), "AdamW has two numbers for each")
	require.InDelta(t, parameters, parts["gradients"], 128*512*4+float64(rounding), "one is still to come")
	require.Contains(t, report.String(), "optimizer state 4")
}

func TestLargest_OfADeviceOnWhichNothingFits(t *testing.T) {
	nothingLeft(t)
	report, err := fit.Largest(context.Background(), 4*device.MiB, small(128), fit.Precisions(tensor.Float32, tensor.BFloat16))
	require.NoError(t, err)
	require.Len(t, report.Results, 4)
	for _, r := range report.Results {
		require.Zero(t, r.LargestBatch)
		require.Equal(t, 1, r.TooLarge)
		var oom *memory.OOMError
		require.ErrorAs(t, r.Err, &oom)
		require.EqualValues(t, 4*device.MiB, oom.DeviceTotal)
		require.Zero(t, r.PeakAllocated)
	}
	require.Contains(t, report.String(), "bfloat16")
}

func TestLargest_OccupiedMemoryIsNotThere(t *testing.T) {
	whole, err := fit.Largest(context.Background(), 96*device.MiB, small(64))
	require.NoError(t, err)
	some, err := fit.Largest(context.Background(), 160*device.MiB, small(64), fit.Occupied(64*device.MiB))
	require.NoError(t, err)
	for i := range whole.Results {
		require.Equal(t, whole.Results[i].LargestBatch, some.Results[i].LargestBatch)
	}
	require.Contains(t, some.String(), "on 160MiB, of which others have 64MiB")
}

func TestLargest_ACancelledContextEndsIt(t *testing.T) {
	nothingLeft(t)
	ctx, cancel := context.WithCancel(context.Background())
	trials := 0
	report, err := fit.Largest(ctx, 96*device.MiB, small(64), fit.Progress(func(trial fit.Trial, _ bool) {
		if trial.Expandable {
			cancel()
		}
		trials++
	}))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, report.Results, 1, "what was found is told")
	require.Greater(t, trials, 10)

	report, err = fit.Largest(ctx, 96*device.MiB, func(context.Context, fit.Trial) error { panic("it is cancelled") })
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, report.Results)
}

// Of a trial that ends for another reason nobody knows whether the batch fits.
func TestLargest_ProgressIsOfTrialsThatTell(t *testing.T) {
	var fits []bool
	_, err := fit.Largest(context.Background(), 96*device.MiB, func(_ context.Context, trial fit.Trial) error {
		if trial.Batch > 1 {
			return errors.New("bad")
		}
		return nil
	}, fit.Progress(func(_ fit.Trial, f bool) { fits = append(fits, f) }))
	require.EqualError(t, err, "fit: batch 2, float32: bad")
	require.Equal(t, []bool{true}, fits)
}

func TestLargest_AnyOtherErrorEndsIt(t *testing.T) {
	nothingLeft(t)
	wrong := errors.New("wrong")
	_, err := fit.Largest(context.Background(), 96*device.MiB, func(ctx context.Context, trial fit.Trial) error {
		if trial.Batch > 3 {
			return fmt.Errorf("step 1: %w", wrong)
		}
		return small(64)(ctx, trial)
	})
	require.ErrorIs(t, err, wrong)
	var at *fit.TrialError
	require.ErrorAs(t, err, &at)
	require.Equal(t, 4, at.Batch)
	require.EqualError(t, err, "fit: batch 4, float32: step 1: wrong")
}

// A shape that values give is not known where there are none: that is said, and no figure.
func TestLargest_OfAProgramWhoseShapesDependOnValues_IsRefused(t *testing.T) {
	nothingLeft(t)
	_, err := fit.Largest(context.Background(), 96*device.MiB, func(_ context.Context, trial fit.Trial) error {
		g := autograd.NewGraph(trial.Device)
		defer g.Release()
		return g.Zeros(tensor.Int64, trial.Batch).OneHot(-1).To(tensor.Float32).Sum(nil, false).Graph().Err()
	})
	var missing *tensor.ValuesError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, "OneHot", missing.Op)
	require.ErrorContains(t, err, "fit: batch 1, float32: ")
}

func TestLargest_CountsReadsOfValues(t *testing.T) {
	report, err := fit.Largest(context.Background(), 96*device.MiB, func(_ context.Context, trial fit.Trial) error {
		g := autograd.NewGraph(trial.Device)
		defer g.Release()
		_, err := g.Zeros(tensor.Float32, trial.Batch).Sum(nil, false).Item()
		return err
	}, fit.MaxBatch(8))
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Results[0].Reads)
	require.Contains(t, report.String(), "Reads of values, up to 1 in a trial, gave zeros")
}

// An error for want of other memory is not the device's.
func TestLargest_AnotherDevicesMemoryEndsIt(t *testing.T) {
	nothingLeft(t)
	other := sim.New(device.MiB)
	defer func() { require.NoError(t, other.Close()) }()
	_, err := fit.Largest(context.Background(), 96*device.MiB, func(context.Context, fit.Trial) error {
		e, err := tensor.On(other)
		if err != nil {
			return err
		}
		_, err = tensor.Zeros(e, tensor.Float32, 1<<20)
		return err
	})
	var at *fit.TrialError
	require.ErrorAs(t, err, &at)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.NoError(t, memory.Drop(other))
}

// A program may make something else of the error, or nothing.
func TestLargest_AFailedRequestIsOneThatDoesNotFit(t *testing.T) {
	nothingLeft(t)
	for _, answer := range []error{nil, errors.New("no memory, it seems")} {
		report, err := fit.Largest(context.Background(), 100*device.MiB, func(_ context.Context, trial fit.Trial) error {
			e, err := tensor.On(trial.Device)
			if err != nil {
				return err
			}
			x, err := tensor.Zeros(e, tensor.Float32, trial.Batch, 1<<18)
			if err != nil {
				return answer
			}
			x.Release()
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 100, report.Results[0].LargestBatch)
	}
}

// What a program leaves behind is no error, and is given back.
func TestLargest_OfAProgramThatReleasesNothing(t *testing.T) {
	nothingLeft(t)
	keeps := func(_ context.Context, trial fit.Trial) error {
		e, err := tensor.On(trial.Device)
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := tensor.Zeros(e, tensor.Float32, trial.Batch, 1<<18); err != nil {
				return err
			}
		}
		return nil
	}
	report, err := fit.Largest(context.Background(), 100*device.MiB, keeps)
	require.NoError(t, err)
	require.Equal(t, 50, report.Results[0].LargestBatch)
	require.Panics(t, func() {
		_, _ = fit.Largest(context.Background(), 100*device.MiB, func(ctx context.Context, trial fit.Trial) error {
			_ = keeps(ctx, trial)
			panic("a program's own")
		})
	})
}

func TestLargest_TakesTheEnvironmentsSettings(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "expandable_segments:True,roundup_power2_divisions:4")
	seen := map[memory.Config]bool{}
	_, err := fit.Largest(context.Background(), 100*device.MiB, func(_ context.Context, trial fit.Trial) error {
		a, err := memory.For(trial.Device)
		if err != nil {
			return err
		}
		c := a.(*memory.Caching).Config()
		if c.ExpandableSegments != trial.Expandable || c.RoundupDivisions[0] != 4 {
			return fmt.Errorf("%v: %v", trial.Settings, c)
		}
		seen[c] = true
		return nil
	}, fit.MaxBatch(2))
	require.NoError(t, err)
	require.Len(t, seen, 2)

	t.Setenv("CISTERN_NO_MEMORY_CACHING", "1")
	_, err = fit.Largest(context.Background(), 100*device.MiB, small(8))
	require.ErrorContains(t, err, "does not cache")
	t.Setenv("CISTERN_NO_MEMORY_CACHING", "")
	t.Setenv("CISTERN_ALLOC_CONF", "what:1")
	var wrong *memory.ConfigError
	_, err = fit.Largest(context.Background(), 100*device.MiB, small(8))
	require.ErrorAs(t, err, &wrong)
}

func TestLargest_RefusesWhatCannotBeSearched(t *testing.T) {
	none := func(context.Context, fit.Trial) error { panic("not to be called") }
	for want, call := range map[string]func() (*fit.Report, error){
		"fit: the program is nil":                     func() (*fit.Report, error) { return fit.Largest(context.Background(), 1, nil) },
		"fit: a capacity of 0 bytes fits nothing":     func() (*fit.Report, error) { return fit.Largest(context.Background(), 0, none) },
		"fit: others occupy 7 bytes of a device of 7": func() (*fit.Report, error) { return fit.Largest(context.Background(), 7, none, fit.Occupied(7)) },
		"fit: MaxSteps is 0, must be":                 func() (*fit.Report, error) { return fit.Largest(context.Background(), 1, none, fit.MaxSteps(0)) },
		"fit: MaxBatch is 0, must be":                 func() (*fit.Report, error) { return fit.Largest(context.Background(), 1, none, fit.MaxBatch(0)) },
		"fit: there is no precision to try":           func() (*fit.Report, error) { return fit.Largest(context.Background(), 1, none, fit.Precisions()) },
		"fit: precision int64; it is float32, float16 or bfloat16": func() (*fit.Report, error) {
			return fit.Largest(context.Background(), 1, none, fit.Precisions(tensor.Int64))
		},
		"fit: precision float16 is given twice": func() (*fit.Report, error) {
			return fit.Largest(context.Background(), 1, none, nil, fit.Precisions(tensor.Float16, tensor.Float16))
		},
	} {
		r, err := call()
		var wrong *fit.ArgumentError
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, want)
		require.Empty(t, r.Results)
	}
	require.Equal(t, "fit: no report", fmt.Sprint((*fit.Report)(nil)))
	require.NotEmpty(t, new(fit.Report).String())
}

func TestCapacity_KnowsGPUsByTheirNames(t *testing.T) {
	for name, want := range map[string]float64{"H100": 79.11, "h100": 79.11, "NVIDIA H100": 79.11, "A100-40GB": 39.5, "a100 40gb": 39.5, "RTX 4090": 23.52,
		"rtx4090": 23.52, "NVIDIA GeForce RTX 4090": 23.52, "T4": 14.75, "sim:80GiB": 80, "sim": 80, "sim:25253904384": 23.52, "24GiB": 24, "1.5 gib": 1.5} {
		got, err := fit.Capacity(name)
		require.NoError(t, err, name)
		require.InDelta(t, want, float64(got)/float64(device.GiB), 0.002, name)
	}
	for name, why := range map[string]string{
		"": "it is empty", "H1000": "no GPU of that name is known", "nvidia": "no GPU of that name is known", "4096": "a number needs a unit",
		"host:4GiB": "what fits is tried on simulated devices", "cuda:0": "what fits is tried on simulated devices", "sim:0GiB": "the capacity is 0", "0GiB": "the capacity is 0",
		"sim:16EiB": `"EiB" is not a unit`, "16EiB": `"EiB" is not a unit`, "sim:1GiB:2": "there is more than one colon", "16777216TiB": "is more than 18446744073709551615 bytes",
		"-1GiB": "has a minus sign", "sim:": "there is nothing after the colon", "gpu:1GiB": "no GPU of that name is known",
	} {
		_, err := fit.Capacity(name)
		var wrong *device.ParseError
		require.ErrorAs(t, err, &wrong, name)
		require.Contains(t, wrong.Reason, why, name)
		require.ErrorContains(t, err, "RTX 4090")
	}
	for _, g := range fit.GPUs() {
		got, err := fit.Capacity(g.Name)
		require.NoError(t, err)
		require.Equal(t, g.Memory, got)
		require.Zero(t, got%(2*device.MiB))
		require.Regexp(t, `^[\w.-]+/[\w.-]+#\d+$`, g.Source)
	}
}

func TestResult_IsJSON(t *testing.T) {
	text, err := json.Marshal(fit.Result{Precision: "float16", Checkpoint: true, Expandable: true, LargestBatch: 5, PeakAllocated: 6, PeakReserved: 7, PerSample: 1,
		AtPeak: []fit.Part{{What: "activations", Bytes: 6}}, TooLarge: 6, Steps: 4, Steady: true, Trials: 8, Reads: 9})
	require.NoError(t, err)
	require.JSONEq(t, `{"precision": "float16", "checkpoint": true, "expandable": true, "largest_batch": 5, "peak_allocated_bytes": 6, "peak_reserved_bytes": 7,
		"bytes_per_sample": 1, "at_max_batch": false, "too_large": 6, "steps": 4, "steady": true, "left_early": false, "at_peak": [{"what": "activations", "bytes": 6}], "value_reads": 9, "trials": 8}`, string(text))
}

func TestReport_SaysThatNothingFits(t *testing.T) {
	report, err := fit.Largest(t.Context(), 20*device.MiB, func(ctx context.Context, trial fit.Trial) error {
		e, err := tensor.On(trial.Device)
		if err != nil {
			return err
		}
		x, err := tensor.Zeros(e, tensor.Float32, 8<<20)
		x.Release()
		return err
	})
	require.NoError(t, err)
	require.Regexp(t, `(?m)^float32 +- +- +none +- +- +- *$`, report.String())
	require.Contains(t, report.String(), "not even the smallest fits. A batch of 1 with float32 fails: tensor: Zeros: Simulated device out of memory. Tried to allocate 32.00 MiB.")
}

func TestReport_IsATable(t *testing.T) {
	r := fit.Report{Device: "RTX 0000", Capacity: 8 * device.GiB, Results: []fit.Result{
		{Precision: "float32", LargestBatch: 10, TooLarge: 11, PeakAllocated: 6 << 30, PeakReserved: 7 << 30, PerSample: 1 << 20, Steps: 4, Steady: true,
			AtPeak: []fit.Part{{What: "activations", Bytes: 900}, {What: "parameters", Bytes: 99}, {What: "other", Bytes: 1}}},
		{Precision: "float16", Checkpoint: true, Expandable: true, LargestBatch: 25, TooLarge: 20, Steps: 64,
			AtPeak: []fit.Part{{What: "activations", Bytes: 970}, {What: "other", Bytes: 20}, {What: "inputs", Bytes: 9}, {What: "workspace", Bytes: 1}}},
		{Precision: "float16", LargestBatch: 64, AtMax: true},
		{Precision: "float16"},
	}}
	require.Equal(t, `largest batch on RTX 0000, 8GiB

precision  checkpoint  expandable  batch                         per sample  allocated  reserved  at the peak
float32    -           -           10                    x 1.00  1MiB        6GiB       7GiB      activations 90 %, parameters 10 %, other < 1 %
float16    yes         yes         25, not 20, 64 steps  x 2.50  0B          0B         0B        activations 97 %, other 3 %
float16    -           -           ≥ 64                  x 6.40  0B          0B         0B        
float16    -           -           none                          -           -          -         

Where the batch is "none", not even the smallest fits.

A batch with "not" behind it fits by where its blocks happen to lie: some smaller ones, from that on, do not.

A batch with "steps" behind it was tried for so many, in which memory did not come to repeat itself, as where the cache is emptied in each: a later one may fail.

The program counts its steps itself: whether later ones fit is not known. With Trial.Steps each batch is tried until its memory repeats itself.

Nothing is set aside for a GPU's driver, which keeps some hundred megabytes, nor for other programs: Occupied does (-occupied 600MiB).
`, r.String())
	r = fit.Report{Capacity: 8 * device.GiB, Occupied: device.GiB, Results: []fit.Result{{Precision: "float32", LargestBatch: 10, Steps: 4, Steady: true}}}
	require.NotContains(t, r.String(), "set aside")
	require.NotContains(t, r.String(), "later")
}
