package mpi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
)

// timesProgram prints how long collectives take on rank 0.
func timesProgram(c comm.Comm, _ arguments) error {
	const large = 4 << 20
	p, err := c.Device().Malloc(4 * large)
	if err != nil {
		return err
	}
	s := c.Device().DefaultStream()
	measure := func(name string, n int, f func() error) error {
		began := time.Now()
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Fprintf(os.Stderr, "%-28s %v\n", name, time.Since(began)/time.Duration(n))
		}
		return nil
	}
	reduce := func(count int, t dtype.DType) func() error {
		b := comm.Buffer{Ptr: p, Count: count, Type: t}
		return func() error { return c.AllReduce(s, b, b, comm.Max) }
	}
	sum := func(count int, t dtype.DType) func() error {
		b := comm.Buffer{Ptr: p, Count: count, Type: t}
		return func() error { return c.AllReduce(s, b, b, comm.Sum) }
	}
	return errors.Join(
		measure("barrier", 500, func() error { return c.Barrier(context.Background()) }),
		measure("sum of 1 float32", 500, sum(1, dtype.Float32)),
		measure("max of 1 float32", 500, reduce(1, dtype.Float32)),
		measure("sum of 64 KiB float32", 200, sum(16<<10, dtype.Float32)),
		measure("gather of 80 KB", 200, func() error {
			b := comm.Buffer{Ptr: p, Count: 20_000, Type: dtype.Float32}
			return c.AllGather(s, b, comm.Buffer{Ptr: p.Add(uint64(40_000 * c.Rank())), Count: 10_000, Type: dtype.Float32})
		}),
		measure("exchange of 80 KB", 200, func() error {
			b := comm.Buffer{Ptr: p, Count: 20_000, Type: dtype.Float32}
			return c.AllToAll(s, b, comm.Buffer{Ptr: p.Add(1 << 20), Count: 20_000, Type: dtype.Float32})
		}),
		measure("broadcast of 80 KB", 200, func() error {
			return c.Broadcast(s, comm.Buffer{Ptr: p, Count: 20_000, Type: dtype.Float32}, 0)
		}),
		measure("scatter of 80 KB", 200, func() error {
			b := comm.Buffer{Ptr: p, Count: 20_000, Type: dtype.Float32}
			return c.ReduceScatter(s, comm.Buffer{Ptr: p.Add(1 << 20), Count: 10_000, Type: dtype.Float32}, b, comm.Sum)
		}),
		measure("sum of 16 MiB float32", 10, sum(large, dtype.Float32)),
		measure("sum of 16 MiB bfloat16", 10, sum(2*large, dtype.BFloat16)),
		c.Device().Free(p),
	)
}

// TestMPI_Times prints what 2 ranks of this machine take, with go test -v -run Times -times.
func TestMPI_Times(t *testing.T) {
	if !*times {
		t.Skip("only with -times")
	}
	withLaunchers(t, func(t *testing.T, l launcher) {
		run := l.start(t, 2, "times", arguments{TimeLimit: time.Minute})
		_, err := run.wait(patient)
		t.Logf("%v\n%s", err, run.Output)
	})
}

var times = flag.Bool("times", false, "print times of collectives")
