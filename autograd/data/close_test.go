package data_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
)

// Close ends a loop whose example waits, whoever makes the examples: what an example waits for may be its context alone.
func TestLoader_Close_EndsAnExampleThatWaits(t *testing.T) {
	for name, returns := range map[string]func(ctx context.Context) error{
		"fails":    context.Context.Err,
		"succeeds": func(context.Context) error { return nil },
	} {
		for _, workers := range []int{0, 1} {
			dev := host.New()
			waits := make(chan struct{}, 8)
			l := data.NewSourceLoader(dev, data.Func(4, func(ctx context.Context, _ int64, _ *rand.Rand) (data.Example, error) {
				waits <- struct{}{}
				<-ctx.Done()
				return data.Example{data.Scalar[float32](1)}, returns(ctx)
			}), 1, data.Workers(workers))
			closed := make(chan error)
			go func() {
				<-waits
				closed <- l.Close()
			}()
			batches := 0
			for b := range l.All(t.Context()) {
				if b != nil {
					batches++
				}
			}
			require.NoError(t, <-closed)
			require.Zero(t, batches, "%s, %d workers: a closed loader gives no batch", name, workers)
			require.ErrorIs(t, l.Err(), device.ErrClosed, "%s, %d workers", name, workers)
			require.Zero(t, memory.Allocated(dev))
			require.NoError(t, memory.Drop(dev))
			require.NoError(t, dev.Close())
		}
	}
}
