package parallel

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// DataParallel is this rank's end of a model that all ranks of a group train together, each on its part of the data. It is for one goroutine at a time.
type DataParallel struct {
	model nn.Module
	comm  comm.Comm
	set   settings

	among  *onComm // the models of the Comm; nil before the ranks have agreed, and after Close
	number int64   // of this one there

	exec tensor.Exec // of the parameters
	side tensor.Exec // the stream of the collectives, and the same allocator

	named   []nn.Named // what is trained
	frozen  []nn.Named // what is not, and buffers
	params  []*param
	buckets []*bucket // in the order of the layout
	launch  []*bucket // in the order in which they are reduced, the same on all ranks
	learned bool      // the order is that of a backward pass,
	order   []int     // by numbers of params; nil with a single bucket
	moved   bool      // a pass of training may have changed the buffers since they were sent
	stale   bool      // all ranks know that the shards may have changed since the parameters were gathered; what they do not know, they ask (refresh)

	graph     *autograd.Graph // whose backward pass comes next
	awaited   bool            // it does: there was a forward pass that trains
	cutOff    *autograd.Graph // the one whose backward pass Close has left without its group
	on        tensor.Exec     // where that works
	noSync    bool
	next      int      // in launch: how many have been reduced in this pass
	arrivals  int      // gradients of the pass under way
	reduced   *bucket  // the last one that was reduced, whose whole gradients are there until the graph's stream has waited for that
	completed []*param // in the order in which this pass has finished their gradients

	gathering // ZeRO 3

	halfCleared bool   // ZeroGrad of a part came while gradients of passes in NoSync waited to be summed
	tooLate     *param // whose ZeroGrad came when the pass under way had put its gradient to those that are summed
	installing  bool   // the end of a pass gives the parameters their sums

	broken    error // why the group was ended
	closed    bool
	unsharded bool                           // by Unshard
	inUse     atomic.Bool                    // by a goroutine that begins a pass or has a gradient
	met       map[*autograd.Parameter]bool   // that are not the model's, and that Run has used in the graph
	has       map[*autograd.Parameter]string // the names of those that the model has now; nil until somebody asks
	reached   atomic.Bool                    // by the backward pass under way: a gradient of the model has come
	penalized atomic.Bool                    // so has one of a part, also in a graph in which Run has run nothing
	inside    bool                           // Whole
	summed    bool                           // passes in NoSync have added gradients up since the last pass that has summed them over the ranks
}

// param is a parameter that is trained.
type param struct {
	name     string
	p        *autograd.Parameter
	bucket   *bucket
	offset   int  // in the bucket's array
	expected int  // in how many parts its gradient comes, with GradientsInParts; 0 if that is to be learned
	learned  int  // uses in the pass that expected is of
	arrived  int  // in this pass
	finished bool // in this pass: as many have arrived as were expected
	kept     bool // the bucket has something of it
	carried  bool // that of earlier passes too
	due      bool // while parameters get their sums: it has not got its own, or this rank's part of it
	unsent   bool // with ZeRO 0: the parameter's own gradient has something of passes in NoSync
	uses     int  // with ZeRO 3: for how many leaves of the graph it has had a value in this pass
}

// Data makes a model, which has its values, one of several ranks: all ranks call it, with the same model and options, and then have the values of rank 0. What is trained is fixed from then on:
// parameters that do not require a gradient now stay as they are on each rank, and one that Run uses, or that the model has, and that was not among them is an error of the pass in which it gets a gradient.
//
// All parameters are on the Comm's device, on one stream. A model that differs from rank 0's is a *MismatchError on all ranks; what else fails on one rank is an *Error
// there, and ends the group. The Comm stays the program's, which closes it after DataParallel.Close.
func Data(model nn.Module, c comm.Comm, opts ...Option) (*DataParallel, error) {
	const op = "Data"
	if why := isnil.Why("Comm", c); why != "" {
		return nil, &Error{Op: op, Rank: -1, Detail: why}
	}
	d := &DataParallel{model: model, comm: c, set: defaults()}
	for _, o := range opts {
		if o != nil {
			o(&d.set)
		}
	}
	done := false
	defer d.guard(op, &done) // of a method of a module
	err := d.start()
	done = true
	if err == nil {
		return d, nil
	}
	var differs *MismatchError
	if err = d.wrong(op, err); !errors.As(err, &differs) {
		c.Abort(err) // the others wait for this rank's collectives
	}
	return nil, errors.Join(err, d.end())
}

// start does what Data does.
func (d *DataParallel) start() error {
	if err := d.admit(); err != nil {
		return err
	}
	stream, err := d.exec.Device().NewStream()
	if err != nil {
		return err
	}
	side, err := tensor.On(d.exec.Device(), tensor.WithStream(stream), tensor.WithAllocator(d.exec.Allocator()))
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	d.side, d.on = side, d.exec
	if err := d.behind(); err != nil { // the model's first values may be on their way
		return err
	}
	parameters := nn.NamedParameters(d.model)
	state := append(append([]nn.Named(nil), parameters...), nn.NamedBuffers(d.model)...)
	if err := d.compare(d.manifest(state, len(parameters))); err != nil {
		return err
	}
	if err := d.broadcastState(state); err != nil {
		return err
	}
	if err := d.ahead(); err != nil {
		return err
	}
	if err := d.arrange(); err != nil {
		return err
	}
	if d.set.joined {
		d.joinBatchNorms(true)
	}
	for _, q := range d.params {
		autograd.Divert(key, q.p, func(g *autograd.Graph, t *tensor.Tensor) (bool, error) { return d.take(g, q, t) })
	}
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			autograd.Divert(key, c.p, func(g *autograd.Graph, _ *tensor.Tensor) (bool, error) { return false, d.takeOfPart(g, c) })
		}
	}
	d.tellSharding()
	return d.settled("Data")
}

// broadcastState gives all ranks the values of rank 0.
func (d *DataParallel) broadcastState(state []nn.Named) error {
	for _, n := range state {
		if t := n.Parameter.Tensor(); sendable(t.DType()) {
			if err := d.broadcast("broadcast of "+n.Name, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendable reports whether collectives take a type.
func sendable(dt tensor.DType) bool { return dt.IsFloat() || dt == tensor.Int64 }

// Module is the model.
func (d *DataParallel) Module() nn.Module {
	if d == nil {
		return nil
	}
	return d.model
}

// Comm is the group.
func (d *DataParallel) Comm() comm.Comm {
	if d == nil {
		return nil
	}
	return d.comm
}

// Parameters are what an optimizer gets, and a penalty of single elements: with ZeRO 0 the model's parameters that are trained, else the parts of them that this rank updates, each a flat
// parameter under the name of its whole. Hooks of RegisterHook are for the model's parameters, also then, and see the loss's gradient of this rank: what a penalty of the parts adds in the same pass comes to the part directly, and only post-accumulate hooks see it. With ZeRO 1 and 2 a graph uses the parts after Forward, which gathers the last update in place. Optimizers that look at the shape of a parameter, such as Muon, and LBFGS are for ZeRO 0.
func (d *DataParallel) Parameters() []*autograd.Parameter {
	if d == nil {
		return nil
	}
	var all []*autograd.Parameter
	for _, q := range d.params {
		all = append(all, d.ParametersOf(q.p)...)
	}
	return all
}

// ParametersOf are those of Parameters that stand for p, for optimizers with groups, and for several optimizers: one, or none, on a rank that has no part of p. An optimizer of none steps by doing nothing.
func (d *DataParallel) ParametersOf(p *autograd.Parameter) []*autograd.Parameter {
	if d == nil {
		return nil
	}
	for _, q := range d.params {
		if q.p != p {
			continue
		}
		if d.set.stage == 0 {
			return []*autograd.Parameter{p}
		}
		for _, s := range q.bucket.pieces {
			if s.of == q {
				return []*autograd.Parameter{s.p}
			}
		}
	}
	return nil
}

// ZeroGrad releases the gradients, also those that were added up without communication, as ZeroGrad of the model's parameters does. An optimizer's is the same if nothing was added up so: with ZeRO 1 to 3
// it has the rank's parts alone, and the next pass, or the backward pass of the one under way, is an error if it has left anything. Called by a hook of RegisterHook within a backward pass any ZeroGrad does what it does in one process, or is an error of the pass:
// what the pass has put to the gradients that are summed over the ranks cannot be taken out of them. Called by a post-accumulate hook, ZeroGrad and SetGrad(nil) of other parameters release what this rank has handed out so far: with ZeRO 3 the order
// is not that of one process, so that these are others than there.
func (d *DataParallel) ZeroGrad() {
	if d == nil {
		return
	}
	for _, q := range d.params {
		q.p.ZeroGrad()
	}
}

// NoSync runs f, whose passes add gradients up on this rank without communication: for all but the last of the parts that a batch is cut into. The next pass
// outside reduces the sum. Until then a step and ClipGradNorm are errors with ZeRO 1 to 3, which have no part of the sum; with ZeRO 0 they
// take this rank's own sum for the gradients, as PyTorch's DistributedDataParallel does, and ranks differ. With ZeRO 1 to 3 the whole gradients of this rank are kept meanwhile; passes outside of NoSync add up the rank's part alone, and send as often.
func (d *DataParallel) NoSync(f func() error) error {
	const op = "NoSync"
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case f == nil:
		return d.mistake(op, "the function is nil")
	case d.closed:
		return d.mistake(op, "the DataParallel is closed")
	}
	defer func(before bool) { d.noSync = before }(d.noSync)
	d.noSync = true
	done := false
	defer d.guard(op, &done)
	err := f()
	done = true
	return err
}

// guard is deferred around functions of the program's: one that panics, or ends its goroutine, leaves the others waiting, and they are told. The panic goes on.
func (d *DataParallel) guard(op string, done *bool) {
	if *done || d == nil { // without a group nobody waits
		return
	}
	value := recover()
	if !d.closed { // else the others wait for nothing of this rank
		why := "its function has ended the goroutine"
		if value != nil {
			why = fmt.Sprintf("a panic: %v", value)
		}
		_ = d.fatal(op, d.mistake(op, "%s", why)) // the panic tells it here
	}
	if value != nil {
		// invariant: it is the program's own panic, which goes on
		panic(value)
	}
}

// fatal ends the group if err is one: the other ranks wait for this one's collectives.
func (d *DataParallel) fatal(op string, err error) error {
	if err == nil || d.broken != nil {
		return d.wrong(op, err)
	}
	d.broken = d.wrong(op, err)
	d.comm.Abort(d.broken)
	return d.broken
}
