package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/mpi"
	"github.com/cistern-ml/cistern/device/comm/nccl"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/device/sim"
)

// train does all that the flags ask for.
func (o *options) train(stdout io.Writer) error {
	w, err := o.work()
	if err != nil {
		return err
	}
	spec, err := device.ParseSpec(o.device)
	if err != nil {
		return err
	}
	switch {
	case spec.Kind == device.Sim:
		o.Ranks = max(o.Ranks, 1)
		r, err := o.predict(w, spec.Capacity)
		if err != nil {
			return err
		}
		return r.tell(stdout, o.json)
	case o.backend == "nccl" && !launched():
		return errors.New("-backend nccl is for ranks that an MPI launcher has started: mpirun -n 2 ./train -backend nccl -device cuda:0")
	case o.Ranks > 0 && launched(): // each process would train all ranks
		return fmt.Errorf("-ranks is %d, for ranks in one process, and an MPI launcher has started this one as one of several: leave -ranks out, or the launcher", o.Ranks)
	case launched():
		return o.joinGroup(w, stdout)
	}
	o.Ranks = max(o.Ranks, 1)
	r, err := o.predict(w, 0)
	if err != nil {
		return err
	}
	if err := o.inProcess(w, r); err != nil {
		return err
	}
	return r.tell(stdout, o.json)
}

// launched reports whether an MPI launcher has started the process, as one of several.
func launched() bool {
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// inProcess trains all ranks in this process, each on a device of its own.
func (o *options) inProcess(w *work, r *report) (err error) {
	devices := make([]device.Device, o.Ranks)
	for i := range devices {
		if devices[i], err = openFor(o.device, i); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, devices[i].Close()) }()
	}
	comms, err := comm.Loopback(devices...)
	if err != nil {
		return err
	}
	errs, alls := make([]error, o.Ranks), make([][][]float64, o.Ranks)
	var wg sync.WaitGroup
	for i, c := range comms {
		wg.Go(func() {
			if _, alls[i], errs[i] = o.trainRank(w, devices[i], c, o.Steps); errs[i] != nil {
				c.Abort(errs[i])
			}
		})
	}
	wg.Wait()
	for _, c := range comms {
		errs = append(errs, c.Close())
	}
	r.measured(alls[0], comms[0].Backend())
	return first(errs)
}

// openFor is the device of a rank of this process: a host device of its own, which shares its waits with no other, or the GPU of its number.
func openFor(name string, rank int) (device.Device, error) {
	spec, err := device.ParseSpec(name)
	if err != nil {
		return nil, err
	}
	if spec.Kind == device.Host {
		return host.New(host.Capacity(spec.Capacity)), nil
	}
	spec.Index += rank
	return device.Open(spec.String())
}

// joinGroup is one rank of several processes. The first tells of all.
func (o *options) joinGroup(w *work, stdout io.Writer) (err error) {
	c, end, err := o.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(), end()) }()
	dev := c.Device()
	o.Ranks = c.Size()
	err = o.divides(o.Ranks)
	r := &report{options: *o}
	if err == nil && c.Rank() == 0 {
		r, err = o.predict(w, 0)
	}
	var all [][]float64
	if err == nil {
		_, all, err = o.trainRank(w, dev, c, o.Steps)
	}
	if err != nil {
		c.Abort(err)
		return err
	}
	if c.Rank() > 0 {
		return nil
	}
	r.measured(all, c.Backend())
	return r.tell(stdout, o.json)
}

// open joins the group that the launcher has started. end ends what it was started by, when the group is closed.
func (o *options) open() (c comm.Comm, end func() error, err error) {
	if o.backend == "mpi" {
		dev, err := device.Open(o.device)
		if err != nil {
			return nil, nil, err
		}
		c, err = mpi.Open(dev, mpi.Options{})
		return c, func() error { return nil }, err
	}
	start, err := mpi.Open(host.Default(), mpi.Options{})
	if err != nil {
		return nil, nil, err
	}
	dev, err := o.gpu()
	if err == nil {
		c, err = nccl.Open(dev, nccl.ByComm(start), nccl.Options{})
	}
	if err != nil {
		start.Abort(err) // or the others wait for this rank
		return nil, nil, errors.Join(err, start.Close())
	}
	return c, start.Close, nil
}

// gpu is the device of this rank: counted from that of the flag, the one of its number on the machine, if the launcher lets it see so many.
func (o *options) gpu() (device.Device, error) {
	spec, err := device.ParseSpec(o.device)
	if err != nil {
		return nil, err
	}
	if spec.Kind != device.CUDA {
		return nil, fmt.Errorf("-backend nccl is for GPUs, and -device is %q", o.device)
	}
	if n := device.Count(device.CUDA); n > 0 {
		spec.Index = (spec.Index + localRank()) % n
	}
	return device.Open(spec.String())
}

// localRank is the number of this process among those that the launcher has started on this machine.
func localRank() int {
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n >= 0 {
			return n
		}
	}
	return 0
}

// first is the error that the others come from: one that is not of a group that was ended, if there is any.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, comm.ErrAborted) {
			return err
		}
	}
	return errors.Join(errs...)
}

// mostPredicted is how many ranks are simulated at most: of larger groups the first, the middle and the last one.
const mostPredicted = 16

// predict simulates the ranks of a group, each alone, on a device of bytes (0: as many as it likes).
func (o *options) predict(w *work, bytes uint64) (*report, error) {
	if bytes == 0 {
		bytes = sim.DefaultCapacity
	}
	r := &report{options: *o}
	r.Listed = listed(o.Ranks)
	for _, i := range r.Listed {
		f, err := o.simulate(w, bytes, i)
		if err != nil {
			return nil, err
		}
		r.Predicted = append(r.Predicted, f.peak)
		r.Held, r.Sent = append(r.Held, f.held), append(r.Sent, uint64(f.sent))
	}
	return r, nil
}

func listed(ranks int) (list []int) {
	if ranks > mostPredicted {
		return []int{0, ranks / 2, ranks - 1}
	}
	for i := range ranks {
		list = append(list, i)
	}
	return list
}

// simulate takes as many steps as show a peak: the first makes the optimizer's state, the second has the order of the buckets.
func (o *options) simulate(w *work, bytes uint64, rank int) (f figures, err error) {
	dev := sim.New(bytes)
	defer func() { err = errors.Join(err, dev.Close()) }()
	c, err := comm.Simulated(dev, rank, o.Ranks)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	steps := min(o.Steps, 3)
	if o.resume != "" { // its first step has the optimizer's state
		steps = 3
	}
	f, _, err = o.trainRank(w, dev, c, steps)
	return f, err
}
