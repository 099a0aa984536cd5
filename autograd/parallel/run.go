package parallel

import (
	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/replay"
)

// A forward pass: what must hold where it begins, and what its end means for the other ranks.

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
	if g.GradEnabled() || d.set.stage == 3 {
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
	if d.forward || d.arrivals > 0 || d.installing {
		return d.fatal(op, d.mistake(op, "another pass of it is under way: a DataParallel is for one pass, and one goroutine, at a time"))
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
