package parallel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/internal/replay"
	"github.com/cistern-ml/cistern/tensor"
)

// DataParallel is this rank's end of a model that all ranks of a group train together, each on its part of the data. It is for one goroutine at a time.
type DataParallel struct {
	model nn.Module
	comm  comm.Comm
	set   settings

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
	kept     bool // the bucket has something of it
	carried  bool // that of earlier passes too
	owed     bool // while parameters get their sums: so was it, and it has not got its own
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
		autograd.Divert(key, q.p, func(t *tensor.Tensor) (bool, error) { return d.take(q, t) })
	}
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			autograd.Divert(key, c.p, d.takeOfPart)
		}
	}
	d.tellSharding()
	return d.settled("Data")
}

// admit refuses models and options that cannot be trained so, before there is any collective.
func (d *DataParallel) admit() error {
	const op = "Data"
	if err := d.admitOptions(op); err != nil {
		return err
	}
	if why := isnil.Why("model", d.model); why != "" {
		return d.mistake(op, "%s", why)
	}
	if err := nn.Check(d.model); err != nil {
		return err
	}
	for _, n := range append(nn.NamedParameters(d.model), nn.NamedBuffers(d.model)...) {
		if err := d.admits(op, n); err != nil {
			return err
		}
		if n.Parameter.RequiresGrad() {
			d.named = append(d.named, n)
		} else {
			d.frozen = append(d.frozen, n)
		}
	}
	return d.someTrained(op)
}

// admitOptions refuses options that do not go together.
func (d *DataParallel) admitOptions(op string) error {
	switch s := d.set; {
	case s.stage < 0 || s.stage > 3:
		return d.mistake(op, "ZeRO(%d): there are stages 0 to 3", s.stage)
	case s.first < 1 || s.rest < 1:
		return d.mistake(op, "BucketBytes(%d, %d): both must be positive", s.first, s.rest)
	case s.master && s.stage == 0:
		return d.mistake(op, "MasterWeights are for ZeRO 1 to 3")
	case len(s.units) > 0 && s.stage != 3:
		return d.mistake(op, "Units are for ZeRO 3, not %d", s.stage)
	}
	return nil
}

// someTrained refuses a model of which nothing is trained.
func (d *DataParallel) someTrained(op string) error {
	if len(d.named) == 0 {
		return d.mistake(op, "the model has no parameter that requires a gradient")
	}
	return nil
}

// masters refuses MasterWeights for a parameter that is wider than they are.
func (d *DataParallel) masters(op string, n nn.Named, dt tensor.DType) error {
	if !d.set.master || dt != tensor.Float64 || !n.Parameter.RequiresGrad() {
		return nil
	}
	return &Error{Op: op, Rank: d.rank(), Parameter: n.Name, Detail: "MasterWeights are float32, and it is of float64: they are for parameters in half precision"}
}

// admits refuses a parameter or buffer.
func (d *DataParallel) admits(op string, n nn.Named) error {
	refuse := func(detail string, err error) error {
		return &Error{Op: op, Rank: d.comm.Rank(), Parameter: n.Name, Detail: detail, Err: err}
	}
	t := n.Parameter.Tensor()
	if t != nil {
		if err := d.masters(op, n, t.DType()); err != nil {
			return err
		}
	}
	switch {
	case autograd.Diverted(key, n.Parameter):
		return refuse("another DataParallel trains it: Unshard or Close that first", nil)
	case d.set.stage > 0 && autograd.HasPostHooks(key, n.Parameter):
		return d.hooked(op, n.Name)
	case t == nil:
		return refuse("", autograd.Missing(key, n.Parameter, n.Name, "call To on the model first"))
	case t.Device().ID() != d.comm.Device().ID():
		return refuse("it is on "+t.Device().ID().String()+", and the Comm on "+d.comm.Device().ID().String(), nil)
	case d.exec.Stream() == nil:
		d.exec = t.Exec()
	case t.Exec() != d.exec:
		return refuse("it is on another stream, or from another allocator, than the parameters before it", nil)
	}
	if !t.IsContiguous() {
		return refuse("it is not contiguous: make it of what Contiguous gives (a module with its channels last: nn.ToMemoryFormat)", nil)
	}
	return nil
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

// behind makes the collectives that come wait for what is on the graph's stream, and on the parameters', now.
func (d *DataParallel) behind() error {
	if err := order(d.exec.Stream(), d.side.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return order(d.on.Stream(), d.side.Stream())
}

// ahead makes what comes on those streams wait for the collectives so far, and fail if one of them does: what it reads would be something that nobody has made.
func (d *DataParallel) ahead() error {
	if err := d.join(); err != nil {
		return err
	}
	return d.follow()
}

// join is the wait alone.
func (d *DataParallel) join() error {
	if err := order(d.side.Stream(), d.exec.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return order(d.side.Stream(), d.on.Stream())
}

// follow hands errors of the collectives so far on to those streams.
func (d *DataParallel) follow() error {
	if err := d.comm.Follow(d.exec.Stream()); err != nil {
		return err
	}
	if d.on.Stream().ID() == d.exec.Stream().ID() {
		return nil
	}
	return d.comm.Follow(d.on.Stream())
}

// meet is join where memory is released next, also when there is no event to wait for.
func (d *DataParallel) meet() error {
	err := d.join()
	if err != nil {
		_ = d.side.Stream().Synchronize(context.Background()) // it tells what the other error has not
	}
	return err
}

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
// parameter under the name of its whole. Hooks of RegisterHook are for the model's parameters, also then. Optimizers that look at the shape of a parameter, such as Muon, and LBFGS are for ZeRO 0.
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
// it has the rank's parts alone, and the next pass, or the backward pass of the one under way, is an error if it has left anything. Called by a hook within a backward pass any ZeroGrad does what it does in one process, or is an error of the pass:
// what the pass has put to the gradients that are summed over the ranks cannot be taken out of them.
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

// Forward runs the model, which must be a layer (a module with one input), as Run does.
func (d *DataParallel) Forward(x *autograd.Variable) *autograd.Variable {
	g := x.Graph()
	if g == nil {
		return d.nowhere("Forward", autograd.ErrNilVariable)
	}
	if d == nil || d.comm == nil {
		return g.Refuse(pass, &Error{Op: "Forward", Rank: -1, Detail: "the DataParallel was not made by Data"}, x)
	}
	l, ok := d.model.(nn.Layer)
	if !ok {
		return g.Refuse(pass, d.mistake("Forward", "a %T has no Forward with one input: call it in Run", d.model), x)
	}
	return d.Run(g, func() *autograd.Variable { return l.Forward(x) })
}

// Run runs f, the model's forward pass in g, and prepares the backward pass, which reduces the gradients while it goes on: after Backward they are the mean of all ranks'. All ranks make
// the same passes. An error of f in a graph that trains, or one that the graph has had before, a result of f that is nil or of another graph, or an error of the backward pass, ends the group: the other ranks would wait for this one's gradients. So does a Backward that is refused, as of a loss that has failed or is no scalar. A program that does not
// come so far ends it with Comm.Abort. Without a graph, as Forward of a nil variable, it ends the group too, and what it returns has the error.
func (d *DataParallel) Run(g *autograd.Graph, f func() *autograd.Variable) *autograd.Variable {
	if g == nil {
		return d.nowhere("Run", autograd.ErrNilGraph)
	}
	if f == nil && d != nil && d.comm != nil {
		return g.Refuse(pass, d.fatal("Run", d.mistake("Run", "the function is nil"))) // the others wait for what it would send
	}
	if err := d.begin(g); err != nil {
		return g.Refuse(pass, err)
	}
	v := d.forwardPass(g, f)
	if err := g.Err(); err != nil {
		if g.GradEnabled() {
			_ = d.fatal("Run", err) // the graph has told it
		}
		return v
	}
	if v == nil || v.Graph() != g {
		return g.Refuse(pass, d.noResult(g, v))
	}
	return v
}

// forwardPass runs f, with ZeRO 3 with its parameters gathered, which within Whole they are.
func (d *DataParallel) forwardPass(g *autograd.Graph, f func() *autograd.Variable) (v *autograd.Variable) {
	done := false
	defer d.guard("Run", &done)
	if g.GradEnabled() {
		f = d.meeting(g, f)
	}
	if d.set.stage < 3 || d.inside {
		v = f()
	} else {
		v = d.runSharded(g, f)
	}
	done = true
	return v
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

// noResult is the error of a forward pass without a result in its graph, of which no backward pass comes: it ends the group if the others wait for that.
func (d *DataParallel) noResult(g *autograd.Graph, v *autograd.Variable) error {
	detail := "the function has returned a variable of another graph"
	if v == nil {
		detail = "the function has returned nil"
	}
	err := d.mistake("Run", "%s: return a result of the pass, of the graph that Run was given", detail)
	if !g.GradEnabled() {
		return err
	}
	return d.fatal("Run", err)
}

// nowhere is the result of a forward pass that has no graph, and so no place for its error: one of a graph of its own, whose Err it is. It ends the group, as the others wait for what the pass would
// send.
func (d *DataParallel) nowhere(op string, err error) *autograd.Variable {
	if d == nil || d.comm == nil {
		return nil // which is ErrNilVariable wherever it is used
	}
	if err = d.wrong(op, err); !d.closed {
		err = d.fatal(op, err)
	}
	return autograd.NewGraph(d.exec.Device()).Refuse(pass, err)
}

// begin prepares for a forward pass in g.
func (d *DataParallel) begin(g *autograd.Graph) error {
	const op = "Run"
	switch {
	case d == nil || d.comm == nil:
		return &Error{Op: op, Rank: -1, Detail: "the DataParallel was not made by Data"}
	case d.closed:
		return &Error{Op: op, Rank: d.comm.Rank(), Err: device.ErrClosed}
	case d.broken != nil:
		return d.broken
	case !d.inUse.CompareAndSwap(false, true):
		return d.twice(op)
	}
	defer d.inUse.Store(false)
	trains := g.GradEnabled()
	if replay.Prepared(g.Exec().Stream()) != nil { // the model is not among the step's Modules, where it would have been refused
		return d.mistake(op, "the graph is that of a stepgraph.Step, whose replays start no collectives: take such steps without it")
	}
	if err := d.unfit(op, g); err != nil {
		if trains { // the others wait for the pass
			return d.fatal(op, err)
		}
		return err
	}
	if d.forward || d.arrivals > 0 && autograd.InBackward(key, d.graph) {
		return d.fatal(op, d.mistake(op, "another pass of it is under way: a DataParallel is for one pass, and one goroutine, at a time"))
	}
	if d.arrivals > 0 {
		return d.fatal(op, d.mistake(op, "a backward pass of a graph whose forward pass was not run by Run or Forward has left gradients"))
	}
	if d.inside && trains {
		return d.fatal(op, d.mistake(op, withinWhole))
	}
	if d.inside && d.set.stage > 0 { // what f has put in the place of parameters is what is evaluated
		if err := d.allBack(op); err != nil {
			return err
		}
	}
	if err := d.stillThere(op); err != nil {
		return err
	}
	if trains {
		if err := d.stillSummed(op); err != nil {
			return err
		}
		if err := d.unheardHooks(op); err != nil {
			return d.fatal(op, err)
		}
		d.awaited = true
		if err := d.stillFrozen(op); err != nil {
			return err
		}
	}
	if trains && d.graph != g {
		d.graph, d.met, d.has = g, nil, nil
		autograd.WatchPasses(key, g, passes{d, g})
	}
	d.on = g.Exec()
	d.markShards()
	err := d.follow() // also where this pass sends nothing: the parameters may be what a lost group has left
	if err == nil {
		err = d.refresh(op, trains)
	}
	if err == nil && d.set.buffers && d.buffersDue(trains) {
		err = d.sendBuffers()
	}
	return d.fatal(op, err)
}

// unfit refuses a graph in which there can be no pass.
func (d *DataParallel) unfit(op string, g *autograd.Graph) error {
	if err := g.Err(); err != nil {
		return err
	}
	if have, want := g.Device().ID(), d.exec.Device().ID(); have != want {
		return d.mistake(op, "the graph is on %v, the model on %v", have, want)
	}
	return nil
}

// twice is the error of a goroutine that comes while another one is at work. It ends the group, and changes nothing here, where that one works.
func (d *DataParallel) twice(op string) error {
	err := d.mistake(op, "the DataParallel is used by two goroutines at once: it is for one at a time")
	d.comm.Abort(err)
	return err
}

// stillFrozen refuses to train what was not trained when the ranks have agreed, as each would train it by its own gradients alone, and what was trained and is not any more, whose gradients the others
// wait for.
func (d *DataParallel) stillFrozen(op string) error {
	for _, n := range d.frozen {
		if n.Parameter.RequiresGrad() {
			return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: n.Name, Detail: "it was not trained when Data was called: SetRequiresGrad comes before Data"})
		}
	}
	for _, b := range d.buckets {
		for _, c := range b.pieces {
			if !c.p.RequiresGrad() {
				return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: c.of.name, Detail: "this rank's part of it is frozen, which changes nothing of what is trained: SetRequiresGrad of the model's parameter comes before Data"})
			}
		}
	}
	for _, q := range d.params {
		if !q.p.RequiresGrad() && !d.set.unused {
			return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name, Detail: "it is frozen, and was trained when Data was called: SetRequiresGrad comes before Data, or ask for FindUnused"})
		}
	}
	return nil
}

// meeting is f with a note of the parameters that it uses and that nobody has agreed to train.
func (d *DataParallel) meeting(g *autograd.Graph, f func() *autograd.Variable) func() *autograd.Variable {
	meet := func(p *autograd.Parameter) {
		if !p.RequiresGrad() || autograd.Diverted(key, p) || autograd.PartOf(key, p) != "" {
			return
		}
		if d.met == nil {
			d.met = map[*autograd.Parameter]bool{}
		}
		d.met[p] = true
	}
	return func() *autograd.Variable { return autograd.WatchParameters(key, g, meet, f) }
}

// newcomer refuses the gradient of a parameter that the model, or the forward pass, did not have when the ranks have agreed: each would train it by its own gradients alone. What is elsewhere, as a layer that is used outside of Run, and what
// gets no gradient, as a teacher within it, is the program's.
func (d *DataParallel) newcomer(g *autograd.Graph, p *autograd.Parameter) error {
	if autograd.PartOf(key, p) != "" {
		return nil
	}
	if d.has == nil {
		d.has = map[*autograd.Parameter]string{}
		for _, n := range nn.NamedParameters(d.model) {
			d.has[n.Parameter] = n.Name
		}
	}
	name, mine := d.has[p]
	if !mine && !(d.graph == g && d.met[p]) {
		return nil
	}
	if !mine {
		name = p.Name()
	}
	return &Error{Op: "Backward", Rank: d.comm.Rank(), Parameter: name,
		Detail: "it was not among the parameters when Data was called, and each rank would train it by its own gradients alone: make it part of the model before Data, freeze it (SetRequiresGrad), or use it outside of Run"}
}

// stillThere refuses parameters that have other values than the ranks' parts of them since (Module.To, SetTensor): they would not be trained.
func (d *DataParallel) stillThere(op string) error {
	if d.set.stage == 0 {
		return nil
	}
	for _, q := range d.params {
		t := q.p.Tensor()
		if d.set.stage == 3 && !q.bucket.installed {
			if t == nil {
				continue
			}
		} else if t != nil && t.SharesStorage(q.bucket.full) {
			continue
		}
		return d.fatal(op, &Error{Op: op, Rank: d.comm.Rank(), Parameter: q.name,
			Detail: fmt.Sprintf("it was replaced or released since Data, which with ZeRO %d keeps the values in arrays of its own: Unshard first, and call Data again, or replace it in Whole", d.set.stage)})
	}
	return nil
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
