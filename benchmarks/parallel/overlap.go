package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// How much of the communication backward hides: ranks of this process, each on a host device of its own, with links that are made as slow as -links says.

// overlapped are the figures of a stage: seconds of a pass, the means over its steps, of rank 0.
type overlapped struct {
	ZeRO          int     `json:"zero"`
	Backward      float64 `json:"backward_seconds"`        // with links that take no time
	Communication float64 `json:"communication_seconds"`   // on the links alone
	Together      float64 `json:"together_seconds"`        // backward with what it sends
	Apart         float64 `json:"one_bucket_seconds"`      // with all gradients in one bucket, which waits for the last of them
	Hidden        float64 `json:"hidden_of_communication"` // the part of it that takes no time
}

// slowed is a Comm whose links have a bandwidth.
type slowed struct {
	comm.Comm
	bytesPerSecond float64 // 0 for any

	mu    sync.Mutex
	spent time.Duration // on the links, by the count of bytes
}

// delay puts the time that a call takes on a stream, behind what is there.
func (c *slowed) delay(s device.Stream, call comm.Call) error {
	e, ok := s.(device.Executor)
	if !ok || c.bytesPerSecond == 0 {
		return nil
	}
	took := time.Duration(float64(call.Sent(c.Rank(), c.Size())) / c.bytesPerSecond * float64(time.Second))
	c.mu.Lock()
	c.spent += took
	c.mu.Unlock()
	return e.Submit("slow links", func() error { time.Sleep(took); return nil })
}

// AllReduce implements comm.Comm.
func (c *slowed) AllReduce(s device.Stream, dst, src comm.Buffer, op comm.Op) error {
	return errors.Join(c.delay(s, comm.Call{Operation: "AllReduce", Dst: dst, Src: src, Op: op}), c.Comm.AllReduce(s, dst, src, op))
}

// ReduceScatter implements comm.Comm.
func (c *slowed) ReduceScatter(s device.Stream, dst, src comm.Buffer, op comm.Op) error {
	return errors.Join(c.delay(s, comm.Call{Operation: "ReduceScatter", Dst: dst, Src: src, Op: op}), c.Comm.ReduceScatter(s, dst, src, op))
}

// overlap measures the stages that send gradients in buckets, and prints a table.
func (o *options) overlap(w io.Writer) error {
	var all []overlapped
	for stage := range 3 {
		f := overlapped{ZeRO: stage}
		var err error
		for _, run := range []struct {
			links  float64
			bucket int
			to     *float64
		}{{0, bucketBytes, &f.Backward}, {o.links, bucketBytes, &f.Together}, {o.links, 1 << 40, &f.Apart}} {
			if *run.to, f.Communication, err = o.passes(stage, run.bucket, run.links); err != nil {
				return err
			}
		}
		f.Hidden = min(max(0, (f.Backward+f.Communication-f.Together)/f.Communication), 1) // a machine that is not quiet says more, or less
		all = append(all, f)
	}
	if o.json != "" {
		if err := harness.WriteJSON(o.json, all); err != nil {
			return err
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ZeRO\tms backward\tms on links\tms together\tms in one bucket\thidden\t")
	for _, f := range all {
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.0f %%\t\n", f.ZeRO, 1e3*f.Backward, 1e3*f.Communication, 1e3*f.Together, 1e3*f.Apart, 100*f.Hidden)
	}
	return t.Flush()
}

// bucketBytes is about a layer, so that there is something to hide in a small model.
const bucketBytes = 64 << 10

// passes returns the seconds of a backward pass, and on the links, of rank 0.
func (o *options) passes(stage, bucket int, links float64) (pass, sent float64, err error) {
	devices := make([]device.Device, o.Ranks)
	for i := range devices {
		dev := host.New()
		devices[i] = dev
		defer func() { err = errors.Join(err, dev.Close()) }()
	}
	comms, err := comm.Loopback(devices...)
	if err != nil {
		return 0, 0, err
	}
	var wg sync.WaitGroup
	errs := make([]error, o.Ranks)
	for i, c := range comms {
		wg.Go(func() {
			s := &slowed{Comm: c, bytesPerSecond: links}
			took, failed := o.backward(s, parallel.ZeRO(stage), parallel.BucketBytes(bucket, bucket))
			if errs[i] = failed; failed != nil {
				c.Abort(failed)
			}
			if i == 0 {
				pass, sent = took.Seconds()/float64(o.Steps), s.spent.Seconds()/float64(o.Steps+1)
			}
		})
	}
	wg.Wait()
	for _, c := range comms {
		errs = append(errs, c.Close())
	}
	return pass, sent, errors.Join(errs...)
}

// backward trains nothing, and returns the time of the backward passes behind the first, which learns the order of the buckets.
func (o *options) backward(c comm.Comm, opts ...parallel.Option) (took time.Duration, err error) {
	layers := make([]nn.Layer, 0, 2*o.Layers)
	for range o.Layers {
		layers = append(layers, nn.Linear(o.Width, o.Width), nn.GELU())
	}
	model := nn.Sequential(layers...)
	if err := model.To(c.Device(), nn.Seed(1)); err != nil {
		return 0, err
	}
	defer model.Release()
	d, err := parallel.Data(model, c, opts...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for step := range o.Steps + 1 {
		g := autograd.NewGraph(c.Device())
		x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) {
			return tensor.Ones(e, tensor.Float32, o.Batch/o.Ranks*o.Seq, o.Width)
		})
		loss := d.Forward(x).Square().Mean(nil, false)
		began := time.Now()
		err := loss.Backward()
		if step > 0 {
			took += time.Since(began)
		}
		g.Release()
		if err != nil {
			return 0, err
		}
		d.ZeroGrad()
	}
	return took, nil
}
