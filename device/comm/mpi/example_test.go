package mpi_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/mpi"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/host"
)

// A program that a launcher starts several times, as in mpirun -n 4 ./program: each of them is a rank.
func ExampleOpen() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) // the launcher ends the other ranks, if they have not come to the same
	}
}

func run() (err error) {
	d := host.Default()
	c, err := mpi.Open(d, mpi.Options{TimeLimit: time.Minute})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.Abort(err) // or the others wait for this rank until the time limit
		}
		if closeErr := c.Close(); err == nil {
			err = closeErr
		}
	}()
	p, err := d.Malloc(4 * 1000)
	if err != nil {
		return err
	}
	gradients := comm.Buffer{Ptr: p, Count: 1000, Type: dtype.Float32}
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	if err := c.AllReduce(s, gradients, gradients, comm.Mean); err != nil {
		return err
	}
	// ... work on other streams, while the gradients are on their way ...
	if err := s.Synchronize(context.Background()); err != nil { // of the collective, too
		return err
	}
	return closeAll(s, p)
}

func closeAll(s device.Stream, p device.Ptr) error {
	if err := s.Close(); err != nil {
		return err
	}
	return s.Device().Free(p)
}
