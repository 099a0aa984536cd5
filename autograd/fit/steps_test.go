package fit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/fit"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// holding is a program that holds batch MiB in each step, and as many more as extra says of the step.
func holding(steps *int, extra func(step int) int) fit.Program {
	return func(_ context.Context, t fit.Trial) error {
		e, err := tensor.On(t.Device)
		if err != nil {
			return err
		}
		*steps = 0
		for i := range t.Steps() {
			x, err := tensor.Zeros(e, tensor.Float32, t.Batch+extra(i), 1<<18)
			if err != nil {
				return err
			}
			x.Release()
			*steps++
		}
		return nil
	}
}

// A batch fits if it goes on: not if it only survives the first steps.
func TestLargest_TriesUntilMemoryRepeatsItself(t *testing.T) {
	nothingLeft(t)
	for _, settles := range []int{0, 1, 3, 10, 40} {
		steps := 0
		report, err := fit.Largest(context.Background(), 200*device.MiB, holding(&steps, func(step int) int { return 2 * min(step, settles) }))
		require.NoError(t, err)
		for _, r := range report.Results {
			require.True(t, r.Steady, "settles after %d", settles)
			require.LessOrEqual(t, r.Steps, settles+5)
			require.LessOrEqual(t, int64(r.LargestBatch+2*settles)<<20, r.PeakReserved)
			require.LessOrEqual(t, r.LargestBatch+2*settles, 200)
			require.Greater(t, r.LargestBatch, 20)
		}
		require.Equal(t, steps, report.Results[1].Steps, "the last trial is that of the result")
		require.NotContains(t, report.String(), "later")
	}
}

// Steps of two kinds by turns repeat themselves in pairs.
func TestLargest_StepsByTurnsRepeatThemselves(t *testing.T) {
	steps := 0
	report, err := fit.Largest(context.Background(), 200*device.MiB, holding(&steps, func(step int) int { return 10 * (step % 3) }))
	require.NoError(t, err)
	for _, r := range report.Results {
		require.True(t, r.Steady)
		require.GreaterOrEqual(t, r.Steps, 6)
		require.Less(t, r.Steps, 15)
	}
}

// Where nothing repeats itself the report says for how many steps it was tried.
func TestLargest_OfAProgramThatIsNeverSteady(t *testing.T) {
	steps := 0
	grows := holding(&steps, func(step int) int { return step })
	report, err := fit.Largest(context.Background(), 200*device.MiB, grows)
	require.NoError(t, err)
	r := report.Results[0]
	require.False(t, r.Steady)
	require.Equal(t, 64, r.Steps)
	require.LessOrEqual(t, r.LargestBatch, 200-63)
	require.Contains(t, report.String(), ", 64 steps")
	require.Contains(t, report.String(), "a later one may fail")

	report, err = fit.Largest(context.Background(), 200*device.MiB, grows, fit.MaxSteps(10))
	require.NoError(t, err)
	require.Equal(t, 10, report.Results[0].Steps)
	require.Greater(t, report.Results[0].LargestBatch, r.LargestBatch)
}

// What is kept from step to step in two places by turns lies the same at each end, and yet is not the same.
func TestLargest_BlocksThatChangePlacesAreSeen(t *testing.T) {
	report, err := fit.Largest(context.Background(), 200*device.MiB, func(_ context.Context, trial fit.Trial) error {
		e, err := tensor.On(trial.Device)
		if err != nil {
			return err
		}
		var kept [2]*tensor.Tensor
		for i := range kept {
			if kept[i], err = tensor.Zeros(e, tensor.Float32, 4<<18); err != nil {
				return err
			}
		}
		for i := range trial.Steps() {
			kept[i%2].Release()
			if kept[i%2], err = tensor.Zeros(e, tensor.Float32, 4<<18); err != nil {
				return err
			}
		}
		return nil
	}, fit.MaxBatch(1))
	require.NoError(t, err)
	require.Equal(t, 4, report.Results[0].Steps, "two pairs")
	require.True(t, report.Results[0].Steady)
}

func TestLargest_SaysThatAProgramCountsItsOwnSteps(t *testing.T) {
	report, err := fit.Largest(context.Background(), 96*device.MiB, smallFor(64, times(3)))
	require.NoError(t, err)
	require.Zero(t, report.Results[0].Steps)
	require.False(t, report.Results[0].Steady)
	require.NotEmpty(t, report.Results[0].AtPeak)
	require.Contains(t, report.String(), "The program counts its steps itself")
}

// A program's own recording goes on, and has nothing to do with whether memory repeats itself.
func TestLargest_OfAProgramThatRecords(t *testing.T) {
	for name, o := range map[string]memory.HistoryOptions{"all": {}, "the stacks of blocks": {Context: memory.ContextState}, "no trace": {Enabled: memory.HistoryState}} {
		entries := 0
		report, err := fit.Largest(context.Background(), 96*device.MiB, func(ctx context.Context, trial fit.Trial) error {
			a, err := memory.For(trial.Device)
			if err != nil {
				return err
			}
			c := a.(*memory.Caching)
			if err := c.RecordHistory(o); err != nil {
				return err
			}
			defer func() { entries = len(c.Snapshot().DeviceTraces[trial.Device.ID().Index]) }()
			return small(64)(ctx, trial)
		}, fit.MaxBatch(1))
		require.NoError(t, err)
		require.True(t, report.Results[0].Steady, name)
		require.Less(t, report.Results[0].Steps, 8, name)
		require.NotContains(t, report.String(), "repeat itself")
		require.Equal(t, o.Enabled == memory.HistoryAll, entries > 200, name)
	}
}

// One that begins a recording in each step, and forgets it, is steady too.
func TestLargest_OfAProgramThatRecordsEachStep(t *testing.T) {
	report, err := fit.Largest(context.Background(), 96*device.MiB, func(_ context.Context, trial fit.Trial) error {
		e, err := tensor.On(trial.Device)
		if err != nil {
			return err
		}
		for range trial.Steps() {
			if err := memory.RecordHistory(trial.Device, memory.HistoryOptions{Clear: true}); err != nil {
				return err
			}
			x, err := tensor.Zeros(e, tensor.Float32, trial.Batch, 1<<18)
			if err != nil {
				return err
			}
			x.Release()
			memory.StopHistory(trial.Device)
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, report.Results[0].Steady)
	require.Equal(t, 96, report.Results[0].LargestBatch)
}

func TestTrial_StepsWithoutASearchAreThree(t *testing.T) {
	n := 0
	for i := range (fit.Trial{}).Steps() {
		require.Equal(t, n, i)
		n++
	}
	require.Equal(t, 3, n)
	for range (fit.Trial{}).Steps() {
		break
	}
}

// phases is a program with a loop for each of some sizes, in MiB for each of a batch.
func phases(each ...int) fit.Program {
	return func(_ context.Context, t fit.Trial) error {
		e, err := tensor.On(t.Device)
		if err != nil {
			return err
		}
		for _, size := range each {
			for range t.Steps() {
				x, err := tensor.Zeros(e, tensor.Float32, t.Batch*size, 1<<18)
				if err != nil {
					return err
				}
				x.Release()
			}
		}
		return nil
	}
}

// Each phase of a program has its own steps: the largest decides, whether it is the first or the last.
func TestLargest_OfAProgramOfSeveralPhases(t *testing.T) {
	for _, each := range [][]int{{1, 4}, {4, 1}, {1, 4, 2}} {
		report, err := fit.Largest(context.Background(), 200*device.MiB, phases(each...))
		require.NoError(t, err)
		for _, r := range report.Results {
			require.Equal(t, 50, r.LargestBatch, each)
			require.True(t, r.Steady, each)
			require.False(t, r.LeftEarly)
			require.GreaterOrEqual(t, r.Steps, 2*len(each), each)
			require.EqualValues(t, 200*device.MiB, r.PeakAllocated, "it is run again as it was")
		}
	}
}

// A phase that does not become steady leaves the whole open.
func TestLargest_OfAPhaseThatIsNotSteady(t *testing.T) {
	steps := 0
	grows := holding(&steps, func(step int) int { return step })
	report, err := fit.Largest(context.Background(), 200*device.MiB, func(ctx context.Context, t fit.Trial) error {
		return errors.Join(grows(ctx, t), phases(1)(ctx, t))
	}, fit.MaxSteps(8))
	require.NoError(t, err)
	require.False(t, report.Results[0].Steady)
	require.Greater(t, report.Results[0].Steps, 8)
	require.Contains(t, report.String(), "did not come to repeat itself")
}

// Who leaves the loop is told so, and not that memory did not repeat itself.
func TestLargest_OfAProgramThatLeavesItsSteps(t *testing.T) {
	report, err := fit.Largest(context.Background(), 200*device.MiB, func(ctx context.Context, t fit.Trial) error {
		for range t.Steps() {
			break
		}
		return phases(1)(ctx, t)
	}, fit.MaxBatch(4))
	require.NoError(t, err)
	require.True(t, report.Results[0].LeftEarly)
	require.False(t, report.Results[0].Steady)
	require.Contains(t, report.String(), "The program left a loop over Trial.Steps before its memory had repeated itself")
	require.NotContains(t, report.String(), "did not come to repeat itself")
	require.NotContains(t, report.String(), "counts its steps itself")
}

// A loop within a step of another could not tell whose memory it is.
func TestLargest_OfStepsWithinStepsIsAnError(t *testing.T) {
	_, err := fit.Largest(context.Background(), 200*device.MiB, func(_ context.Context, t fit.Trial) error {
		for range t.Steps() {
			for range t.Steps() {
				return nil
			}
		}
		return nil
	})
	var wrong *fit.ArgumentError
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "Trial.Steps was called within a step of another loop over Trial.Steps")
}
