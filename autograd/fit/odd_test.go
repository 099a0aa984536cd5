package fit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// asking is a program that asks once for so many bytes.
func asking(bytes func(batch int) uint64) fit.Program {
	return func(_ context.Context, t fit.Trial) error {
		a, err := memory.For(t.Device)
		if err != nil {
			return err
		}
		b, err := a.Alloc(bytes(t.Batch), t.Device.DefaultStream())
		if err != nil {
			return err
		}
		return a.Free(b)
	}
}

func tens(batch int) uint64 { return 10 * device.MiB * uint64(batch) }

func TestLargest_RefusesNoContext(t *testing.T) {
	var none context.Context
	r, err := fit.Largest(none, device.GiB, asking(tens))
	var wrong *fit.ArgumentError
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "fit: the context is nil")
	require.NotNil(t, r)
}

// More samples, less memory: the search is not of all batches.
func TestLargest_WhereOneDoesNotFitAndMoreDo(t *testing.T) {
	nothingLeft(t)
	r, err := fit.Largest(context.Background(), device.GiB, asking(func(batch int) uint64 { return 2 * device.GiB / uint64(batch) }))
	require.NoError(t, err)
	for _, x := range r.Results {
		require.Equal(t, 1<<24, x.LargestBatch)
		require.True(t, x.AtMax)
		require.Equal(t, 1, x.TooLarge)
		require.Less(t, x.Trials, 50)
	}
}

// A program that resets peaks, or all statistics, has the figures of one that does not.
func TestLargest_FiguresDoNotFollowTheProgramsResets(t *testing.T) {
	nothingLeft(t)
	want, err := fit.Largest(context.Background(), device.GiB, asking(tens))
	require.NoError(t, err)
	got, err := fit.Largest(context.Background(), device.GiB, func(ctx context.Context, trial fit.Trial) error {
		defer func() { _ = memory.ResetPeak(trial.Device) }()
		err := asking(tens)(ctx, trial)
		if a, failed := memory.For(trial.Device); failed == nil {
			c := a.(*memory.Caching)
			c.EmptyCache()
			c.ResetAccumulatedStats()
		}
		if trial.Batch%2 == 1 { // what failed is known also if this swallows it
			return nil
		}
		return err
	})
	require.NoError(t, err)
	for i := range want.Results {
		w, g := want.Results[i], got.Results[i]
		w.Err, g.Err = nil, nil
		require.Equal(t, w, g)
		require.EqualValues(t, 1020*device.MiB, g.PeakAllocated)
		require.EqualValues(t, 1020*device.MiB, g.PeakReserved)
		require.EqualValues(t, 10*device.MiB, g.PerSample)
		require.EqualValues(t, g.PeakAllocated, g.AtPeak[0].Bytes)
	}
}

// A batch whose last run fails has no figures.
func TestLargest_OfAProgramThatDoesNotDoTheSameEachTime(t *testing.T) {
	nothingLeft(t)
	seen := map[int]bool{}
	r, err := fit.Largest(context.Background(), device.GiB, func(ctx context.Context, trial fit.Trial) error {
		if seen[trial.Batch] {
			return asking(func(int) uint64 { return 2 * device.GiB })(ctx, trial)
		}
		seen[trial.Batch] = true
		return asking(tens)(ctx, trial)
	})
	var at *fit.TrialError
	require.ErrorAs(t, err, &at)
	require.Equal(t, 102, at.Batch)
	require.ErrorIs(t, err, memory.ErrOutOfMemory)
	require.ErrorContains(t, err, "fit: batch 102, float32: it fitted at first, and did not when it was run once more")
	require.Empty(t, r.Results)
}

func TestLargest_ErrHasTheRequestThatFailedAndTheProgramsError(t *testing.T) {
	nothingLeft(t)
	own := errors.New("my own words")
	for _, answer := range []error{nil, own} {
		r, err := fit.Largest(context.Background(), device.GiB, func(ctx context.Context, trial fit.Trial) error {
			if asking(tens)(ctx, trial) != nil {
				return answer
			}
			return nil
		})
		require.NoError(t, err)
		for _, x := range r.Results {
			require.Equal(t, 102, x.LargestBatch)
			var oom *memory.OOMError
			require.ErrorAs(t, x.Err, &oom)
			require.EqualValues(t, tens(x.TooLarge), oom.Requested)
			require.ErrorIs(t, x.Err, memory.ErrOutOfMemory)
			if answer != nil {
				require.ErrorIs(t, x.Err, own)
			}
		}
	}
}

// Whatever a program returns when the context is done, and whenever that is, it is the context's error.
func TestLargest_ErrorAfterTheContextIsDoneIsItsError(t *testing.T) {
	nothingLeft(t)
	for at := range 12 {
		for _, answer := range []error{nil, errors.New("given up"), memory.ErrOutOfMemory} {
			for want, make := range map[error]func() (context.Context, func()){
				context.Canceled: func() (context.Context, func()) {
					ctx, cancel := context.WithCancelCause(context.Background())
					return ctx, func() { cancel(errors.New("why")) }
				},
				context.DeadlineExceeded: func() (context.Context, func()) {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
					t.Cleanup(cancel)
					return ctx, func() { <-ctx.Done() }
				},
			} {
				ctx, end := make()
				n := 0
				_, err := fit.Largest(ctx, device.GiB, func(ctx context.Context, trial fit.Trial) error {
					if n++; n > at {
						end()
						return answer
					}
					return asking(tens)(ctx, trial)
				})
				require.ErrorIs(t, err, want)
			}
		}
	}
}

func TestReport_NamesTheSettingsOfTheEnvironment(t *testing.T) {
	t.Setenv("CISTERN_ALLOC_CONF", "per_process_memory_fraction:0.5,expandable_segments:True")
	r, err := fit.Largest(context.Background(), device.GiB, asking(tens))
	require.NoError(t, err)
	require.Equal(t, 51, r.Results[0].LargestBatch)
	require.Equal(t, "per_process_memory_fraction:0.5", r.AllocatorConfig)
	require.Contains(t, r.String(), "largest batch on 1GiB, with per_process_memory_fraction:0.5 of the environment\n")

	t.Setenv("CISTERN_ALLOC_CONF", "expandable_segments:True")
	r, err = fit.Largest(context.Background(), device.GiB, asking(tens))
	require.NoError(t, err)
	require.Empty(t, r.AllocatorConfig)
	require.Contains(t, r.String(), "largest batch on 1GiB\n")
}

// normalised is a program with a batch norm of [N, C], which in training wants more than one sample.
func normalised(seen *[]int) fit.Program {
	return func(_ context.Context, t fit.Trial) error {
		*seen = append(*seen, t.Batch)
		model := nn.Sequential(nn.Linear(1024, 1024), nn.BatchNorm1d(1024))
		defer model.Release()
		if err := model.To(t.Device); err != nil {
			return err
		}
		for range t.Steps() {
			g := autograd.NewGraph(t.Device)
			err := model.Forward(g.Zeros(tensor.Float32, t.Batch, 1024)).Sum(nil, false).Backward()
			g.Release()
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func TestLargest_BeginsWithTheSmallestBatch(t *testing.T) {
	nothingLeft(t)
	var seen []int
	_, err := fit.Largest(context.Background(), 96*device.MiB, normalised(&seen))
	var failed *fit.TrialError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 1, failed.Batch)
	require.ErrorContains(t, err, "MinBatch begins with a larger one")
	require.Equal(t, []int{1}, seen)

	seen = nil
	report, err := fit.Largest(context.Background(), 96*device.MiB, normalised(&seen), fit.MinBatch(2))
	require.NoError(t, err)
	require.Equal(t, []int{2, 3, 5}, seen[:3])
	for _, r := range report.Results {
		require.Greater(t, r.LargestBatch, 2000)
		require.Greater(t, r.PerSample, int64(4096))
	}
	exact := report.Results[0].LargestBatch

	seen = nil
	report, err = fit.Largest(context.Background(), 96*device.MiB, normalised(&seen), fit.BatchStep(64))
	require.NoError(t, err)
	for _, n := range seen {
		require.Zero(t, n%64)
	}
	require.InDelta(t, exact, report.Results[0].LargestBatch, 64*5)
	require.Zero(t, report.Results[0].LargestBatch%64)

	report, err = fit.Largest(context.Background(), 96*device.MiB, normalised(&seen), fit.MinBatch(3), fit.BatchStep(10), fit.MaxBatch(32))
	require.NoError(t, err)
	require.Equal(t, 23, report.Results[0].LargestBatch)
	require.True(t, report.Results[0].AtMax)
}

func TestLargest_RefusesBatchesThatThereAreNot(t *testing.T) {
	var wrong *fit.ArgumentError
	for text, o := range map[string]fit.Option{"MinBatch is 0": fit.MinBatch(0), "BatchStep is -1": fit.BatchStep(-1), "the smallest batch is 9, and MaxBatch is 8": fit.MinBatch(9)} {
		_, err := fit.Largest(context.Background(), device.GiB, func(context.Context, fit.Trial) error { return nil }, o, fit.MaxBatch(8))
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, text)
	}
}
