package parallel_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/amp"
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/optim"
	"github.com/cistern-ml/cistern/autograd/parallel"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// limit is when a rank that waits gives up: long, because nothing here depends on it but the end of a test that hangs.
const limit = 30 * time.Second

// rank is what a test has of one.
type rank struct {
	t     testing.TB
	dev   device.Device
	alloc memory.Allocator
	comm  comm.Comm
	exec  tensor.Exec
}

// ranks are n of them, on a host device each.
func ranks(t testing.TB, n int) []*rank {
	t.Helper()
	return ranksWithin(t, limit, n)
}

// ranksWithin is ranks with another time limit.
func ranksWithin(t testing.TB, limit time.Duration, n int) []*rank {
	t.Helper()
	devices := make([]device.Device, n)
	all := make([]*rank, n)
	for i := range all {
		dev := host.New()
		all[i], devices[i] = newRank(t, dev), dev
	}
	comms, err := comm.LoopbackWithin(limit, devices...)
	require.NoError(t, err)
	for i, r := range all {
		r.comm = comms[i]
		t.Cleanup(func() { require.NoError(t, comms[i].Close()) })
	}
	return all
}

// newRank is a rank on a device, with an allocator of its own and no group.
func newRank(t testing.TB, dev interface {
	device.Device
	memory.Driver
}) *rank {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return rankOn(t, dev)
}

// rankOn is newRank on a device that somebody else closes.
func rankOn(t testing.TB, dev interface {
	device.Device
	memory.Driver
}) *rank {
	t.Helper()
	alloc, err := memory.New(dev, memory.Config{})
	require.NoError(t, err)
	e, err := tensor.On(dev, tensor.WithAllocator(alloc))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, alloc.Close()) })
	return &rank{t: t, dev: dev, alloc: alloc, exec: e}
}

// together runs f on all ranks at once, and returns their errors. A rank that fails ends the others.
func together(all []*rank, f func(r *rank) error) []error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() {
			errs[i] = errors.New("the test has ended the goroutine")
			defer func() {
				if errs[i] != nil {
					r.comm.Abort(errs[i])
				}
			}()
			errs[i] = f(r)
		})
	}
	wg.Wait()
	return errs
}

// succeed runs f on n ranks, none of which may fail, or keep memory.
func succeed(t *testing.T, n int, f func(r *rank) error) {
	t.Helper()
	all := ranks(t, n)
	for i, err := range together(all, f) {
		require.NoError(t, err, "rank %d", i)
	}
	requireNothingKept(t, all)
}

// training is how a test trains.
type training struct {
	model      func() nn.Layer
	opt        func(ps []*autograd.Parameter) *optim.Grouped
	options    []parallel.Option
	accumulate int // parts of a batch
	autocast   tensor.DType
	dtype      tensor.DType                                   // of the parameters, float32 if 0
	scaler     func(d *parallel.DataParallel) *amp.GradScaler // nil for none
	clip       float64
	read       bool // the norm, when clipping
	streams    bool // graphs work on another stream than the parameters'
	steps      int
	batch      int // of all ranks together
	data       func(step int) (x []float32, y []int64)
	seed       uint64 // of the model, plus the rank
	load, save string // folders of checkpoints, for the beginning and the end
	none       bool   // no steps
	watch      func(r *rank, d *parallel.DataParallel, opt *optim.Grouped, step int, when string) error
}

// result is what training has left.
type result struct {
	losses []float64
	saved  parallel.Saved // of the checkpoint that was loaded
	values map[string][]float64
}

const inputs, classes = 12, 5

func (c *training) defaults() {
	if c.model == nil {
		c.model = func() nn.Layer {
			return nn.Sequential(nn.Linear(inputs, 32), nn.GELU(), nn.LayerNorm([]int{32}), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, classes))
		}
	}
	if c.opt == nil {
		c.opt = func(ps []*autograd.Parameter) *optim.Grouped { return optim.AdamW(ps, optim.LR(1e-2)) }
	}
	c.accumulate, c.batch = max(c.accumulate, 1), max(c.batch, 8)
	if c.dtype == 0 {
		c.dtype = tensor.Float32
	}
	if c.steps == 0 && !c.none {
		c.steps = 20
	}
	c.data = func(step int) (x []float32, y []int64) {
		x, y = make([]float32, c.batch*inputs), make([]int64, c.batch)
		for i := range x {
			x[i] = float32((i*7+step*13+i*i%5)%23-11) / 8
		}
		for i := range y {
			y[i] = int64(i * 3 % classes)
		}
		return x, y
	}
}

// pass runs forward and backward over part k of rank's share, of parts of all, and returns the loss.
func (c *training) pass(r *rank, forward func(x *autograd.Variable) *autograd.Variable, scaler *amp.GradScaler, gen *tensor.Generator, step, share, shares, k int) (float64, error) {
	xs, ys := c.data(step)
	rows := c.batch / shares / c.accumulate
	from := (k*shares + share) * rows
	x, err := tensor.FromSliceAs(r.exec, c.dtype, xs[from*inputs:(from+rows)*inputs], rows, inputs)
	if err != nil {
		return 0, err
	}
	defer x.Release()
	y, err := tensor.FromSlice(r.exec, ys[from:from+rows], rows)
	if err != nil {
		return 0, err
	}
	defer y.Release()
	opts := []autograd.Option{autograd.WithAllocator(r.alloc), autograd.WithGenerator(gen)}
	if c.autocast != 0 {
		opts = append(opts, amp.Autocast(c.autocast))
	}
	if c.streams {
		s, err := r.dev.NewStream()
		if err != nil {
			return 0, err
		}
		defer func() { _ = s.Close() }() // after the graph is gone
		opts = append(opts, autograd.WithStream(s))
	}
	g := autograd.NewGraph(r.dev, opts...)
	defer g.Release()
	loss := forward(g.Input(x)).CrossEntropy(g.Input(y)).MulScalar(1 / float64(c.accumulate))
	v, err := loss.Item()
	if err != nil {
		return 0, err
	}
	return v, scaler.Backward(loss)
}

// run trains on a rank of a group.
func (c *training) run(r *rank) (res result, err error) {
	model := c.model()
	if err := model.To(r.dev, nn.Seed(c.seed+uint64(r.comm.Rank())), nn.WithAllocator(r.alloc), nn.DType(c.dtype)); err != nil {
		return res, err
	}
	defer model.Release()
	d, err := parallel.Data(model, r.comm, c.options...)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	opt := c.opt(d.Parameters())
	defer opt.Release()
	scaler := amp.NewGradScaler(amp.Enabled(false))
	if c.scaler != nil {
		scaler = c.scaler(d)
	}
	defer scaler.Release()
	gen := tensor.NewGenerator(uint64(77 + r.comm.Rank()))
	ck := c.sections(parallel.NewCheckpoint(d), opt, scaler, gen)
	if c.load != "" {
		if res.saved, err = ck.Read(r.t.Context(), c.load); err != nil {
			return res, err
		}
	}
	watch := func(step int, when string) error {
		if c.watch == nil {
			return nil
		}
		return c.watch(r, d, opt, step, when)
	}
	for step := res.saved.Step; step < res.saved.Step+c.steps; step++ {
		loss := 0.0
		once := func(k int) error {
			v, err := c.pass(r, d.Forward, scaler, gen, step, r.comm.Rank(), r.comm.Size(), k)
			loss += v
			return err
		}
		for k := range c.accumulate - 1 {
			if err := d.NoSync(func() error { return once(k) }); err != nil {
				return res, err
			}
		}
		if err := once(c.accumulate - 1); err != nil {
			return res, err
		}
		if err := watch(step, "backward"); err != nil {
			return res, err
		}
		if c.clip > 0 {
			if err := scaler.Unscale(opt); err != nil {
				return res, err
			}
			clip := d.ClipGradNormAsync
			if c.read {
				clip = func(maxNorm float64) error { _, err := d.ClipGradNorm(maxNorm); return err }
			}
			if err := clip(c.clip); err != nil {
				return res, err
			}
		}
		if err := errors.Join(scaler.Step(opt), scaler.Update()); err != nil {
			return res, err
		}
		if err := watch(step, "step"); err != nil {
			return res, err
		}
		opt.ZeroGrad()
		res.losses = append(res.losses, loss)
	}
	if c.save != "" {
		if err := ck.Write(r.t.Context(), c.save, res.saved.Step+c.steps); err != nil {
			return res, err
		}
	}
	err = d.Whole(func() error {
		res.values, err = valuesOf(model)
		return err
	})
	return res, err
}

// alone trains with the whole batch in one process, and no package parallel: what the others are compared with.
func (c *training) alone(r *rank) (res result, err error) {
	model := c.model()
	if err := model.To(r.dev, nn.Seed(c.seed), nn.WithAllocator(r.alloc), nn.DType(c.dtype)); err != nil {
		return res, err
	}
	defer model.Release()
	opt := c.opt(model.Parameters())
	defer opt.Release()
	scaler := amp.NewGradScaler(amp.Enabled(false))
	if c.scaler != nil {
		scaler = c.scaler(nil)
	}
	defer scaler.Release()
	gen := tensor.NewGenerator(77)
	ck := c.sections(parallel.PlainCheckpoint(model), opt, scaler, gen)
	if c.load != "" {
		if res.saved, err = ck.Read(r.t.Context(), c.load); err != nil {
			return res, err
		}
	}
	for step := res.saved.Step; step < res.saved.Step+c.steps; step++ {
		loss := 0.0
		for k := range c.accumulate {
			v, err := c.pass(r, model.Forward, scaler, gen, step, 0, 1, k)
			if err != nil {
				return res, err
			}
			loss += v
		}
		if c.clip > 0 {
			if err := scaler.Unscale(opt); err != nil {
				return res, err
			}
			if _, err := optim.ClipGradNorm(model.Parameters(), c.clip); err != nil {
				return res, err
			}
		}
		if err := errors.Join(scaler.Step(opt), scaler.Update()); err != nil {
			return res, err
		}
		opt.ZeroGrad()
		res.losses = append(res.losses, loss)
	}
	if c.save != "" {
		if err := ck.Write(r.t.Context(), c.save, res.saved.Step+c.steps); err != nil {
			return res, err
		}
	}
	res.values, err = valuesOf(model)
	return res, err
}

// sections is what a training's checkpoint has.
func (c *training) sections(ck *parallel.Checkpoint, opt *optim.Grouped, scaler *amp.GradScaler, gen *tensor.Generator) *parallel.Checkpoint {
	return ck.Optimizer("optimizer", opt).Add("scaler", checkpoint.State(scaler)).AddOwn("generator", checkpoint.Generator(gen))
}

func valuesOf(m nn.Module) (map[string][]float64, error) {
	values := map[string][]float64{}
	for _, n := range nn.NamedParameters(m) { // buffers are each rank's own after a pass
		v, err := n.Parameter.Tensor().Float64s()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n.Name, err)
		}
		values[n.Name] = v
	}
	return values, nil
}

// trained is the result of all ranks, which must have the same values, to the bit; its losses are the mean of theirs.
func trained(t *testing.T, n int, c training) result {
	t.Helper()
	return trainedOn(t, ranks(t, n), c)
}

func trainedOn(t *testing.T, all []*rank, c training) result {
	t.Helper()
	c.defaults()
	results := make([]result, len(all))
	for i, err := range together(all, func(r *rank) (err error) { results[r.comm.Rank()], err = c.run(r); return err }) {
		require.NoError(t, err, "rank %d", i)
	}
	whole := results[0]
	for i, res := range results[1:] {
		require.Equal(t, whole.values, res.values, "rank %d", i+1)
		for k := range whole.losses {
			whole.losses[k] += res.losses[k]
		}
	}
	for k := range whole.losses {
		whole.losses[k] /= float64(len(all))
	}
	for i, r := range all {
		require.Zero(t, r.alloc.Stats().AllocatedBytes.All.Current, "rank %d", i)
		require.Zero(t, r.alloc.Stats().NumDeferredFrees, "rank %d", i)
	}
	return whole
}

// single is what one process makes of the same.
func single(t *testing.T, c training) result {
	t.Helper()
	c.defaults()
	res, err := c.alone(ranks(t, 1)[0])
	require.NoError(t, err)
	return res
}

// requireClose compares results within round-off.
func requireClose(t *testing.T, want, have result, tolerance float64) {
	t.Helper()
	require.InDeltaSlice(t, want.losses, have.losses, tolerance)
	require.Len(t, have.values, len(want.values))
	for name, v := range want.values {
		require.InDeltaSlice(t, v, have.values[name], tolerance, name)
	}
}
