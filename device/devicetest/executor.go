package devicetest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
)

var executorTests = []test{
	{"SubmittedFunctionsRunAsTheModeSays", testSubmitRuns},
	{"ErrorNamesTheOperationAndKeepsItsCause", testSubmitError},
	{"PanicIsAnError", testSubmitPanic},
}

var errKernel = errors.New("index 7 is outside 0..3")

// executors are the streams of the device that are executors.
func executors(t *testing.T, dev device.Device) []device.Executor {
	t.Helper()
	var found []device.Executor
	for _, s := range streams(t, dev) {
		if x, ok := s.(device.Executor); ok {
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		t.Skip("the device's streams do not run Go functions")
	}
	return found
}

func testSubmitRuns(_ *suite, t *testing.T, dev device.Device) {
	for _, x := range executors(t, dev) {
		var order []int
		for i := range 100 {
			require.NoError(t, x.Submit("append", func() error {
				order = append(order, i)
				return nil
			}))
			if x.Mode() == device.ExecInline {
				require.Len(t, order, i+1)
			}
		}
		require.NoError(t, x.Synchronize(context.Background()))
		if x.Mode() == device.ExecDiscard {
			require.Empty(t, order)
			continue
		}
		require.Len(t, order, 100)
		for i, got := range order {
			require.Equal(t, i, got)
		}
	}
}

// submitted enqueues fn on x and returns its error from wherever it surfaces.
func submitted(x device.Executor, operation string, fn func() error) error {
	if err := x.Submit(operation, fn); err != nil {
		return err
	}
	return x.Synchronize(context.Background())
}

func testSubmitError(_ *suite, t *testing.T, dev device.Device) {
	for _, x := range executors(t, dev) {
		err := submitted(x, "gather", func() error { return errKernel })
		if x.Mode() == device.ExecDiscard {
			require.NoError(t, err)
			continue
		}
		requireError(t, dev, err, device.ErrLaunch)
		requireError(t, dev, err, errKernel)
		require.Contains(t, err.Error(), "gather")
		require.Contains(t, err.Error(), errKernel.Error())
		require.NoError(t, x.Synchronize(context.Background()), "an error is told once")
	}
}

func testSubmitPanic(_ *suite, t *testing.T, dev device.Device) {
	for _, x := range executors(t, dev) {
		if x.Mode() == device.ExecDiscard {
			continue
		}
		err := submitted(x, "scatter", func() error { panic("out of range") })
		requireError(t, dev, err, device.ErrLaunch)
		var panicked *device.PanicError
		require.ErrorAs(t, err, &panicked)
		require.Equal(t, "out of range", panicked.Value)
		require.Contains(t, string(panicked.Stack), "testSubmitPanic")
		err = submitted(x, "scatter", func() error { panic(errKernel) })
		requireError(t, dev, err, errKernel)
		require.NoError(t, submitted(x, "next", func() error { return nil }), "the stream goes on")
	}
}
