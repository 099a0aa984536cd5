package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cistern-ml/cistern/device/cuda"
)

// profiled runs f, which takes so many steps, and writes what the device's profile of it says: the steps that count, without first launches.
// It writes PREFIX-MODEL-PRECISION.txt with totals and a trace beside it, for -profile PREFIX.
func (r *trainer) profiled(steps int, f func() error) error {
	d, ok := r.dev.(*cuda.Device)
	if r.Profile == "" || !ok {
		return f()
	}
	p, err := d.StartProfile()
	if err != nil {
		return err
	}
	err = f()
	p.Stop()
	name := fmt.Sprintf("%s-%s-%s", r.Profile, r.Model, r.AMP)
	totals := func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "%d steps of %s, precision %s, after %d that do not count\n", steps, r.Model, r.AMP, r.Warm); err != nil {
			return err
		}
		return p.WriteTotals(w)
	}
	return errors.Join(err, writeFile(name+".txt", totals), writeFile(name+".trace", p.WriteTrace))
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
