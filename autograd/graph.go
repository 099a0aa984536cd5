package autograd

import (
	"runtime"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// Graph records operations on variables and owns every tensor that they make. It is made for one pass over the data: a
// training step makes one, calls Backward, and releases it. See the package comment for the rules of lifetime.
//
// A Graph and its variables are for one goroutine at a time.
type Graph struct {
	exec    tensor.Exec // Owned: the graph promises to release what is made under it
	outer   tensor.Exec // the same with the safety net, for what users get and make
	dev     device.Device
	ledger  *ledger
	cleanup runtime.Cleanup

	err       error // the first one
	released  bool
	busy      int       // operations and passes under way, which call functions of users that may release the graph
	running   bool      // a backward pass is under way
	pass      *backward // which one
	guarded   bool      // it counts as unreleased
	inference bool      // made with NoGrad: leaves require no gradients
	noGrad    bool      // operations record nothing: always in inference, else inside NoGrad
	anomaly   bool
	retaining bool    // a backward pass is under way that keeps what was saved
	returning bool    // Grad is under way, which adds to no leaf
	saving    *saving // hooks for what operations save, nil for none

	watching []PassWatcher            // told of backward passes; see WatchPasses
	watcher  ModuleWatcher            // nil for none; see WatchModules
	uses     func(p *Parameter) error // told of what Param is called for; see WatchParameters

	scope    *scope // the innermost open scope; nil outside of all
	nodes    uint64 // how many nodes were recorded: the next node's number
	passes   uint64 // how many backward passes were begun
	params   map[*Parameter]paramLeaf
	replaced map[*Parameter]*Variable // what WithParameters has put in their place
	memo     map[any]*Variable

	gradients map[*Variable]*Variable // of leaves, that Backward has recorded
	nested    bool                    // it is that of a function inside an operation
	within    *Graph                  // that operation's graph
	segment   bool                    // of Checkpoint's
	around    *scope                  // of the graph that has the operation, for labels
	again     bool                    // it computes for backward what was computed before, for labels
	used      []usedParameter         // by checkpoints within a nested one
	foreign   []device.Stream         // streams other than the graph's on which leaves live

	gen     *tensor.Generator
	caster  Caster
	casting bool // the caster is at work; its own operations are not cast

	poison   *Variable                      // the result of operations after an error
	observer func(op string, backward bool) // called after each forward and each rule; only tests set it
}

// NewGraph makes a graph on dev. It does not fail: what is wrong with the device or the options is the graph's first error.
func NewGraph(dev device.Device, opts ...Option) *Graph {
	var c config
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	g := &Graph{
		dev: dev, ledger: new(ledger), inference: c.noGrad, noGrad: c.noGrad, anomaly: c.anomaly, gen: c.gen, caster: c.caster,
		saving: savingWith(c.saving),
	}
	g.poison = &Variable{g: g}
	exec, err := tensor.On(dev, c.exec...)
	if err == nil {
		err = c.wrong()
	}
	if err == nil && c.begin != nil {
		err = c.begin(exec)
	}
	if err != nil {
		g.Fail(called("NewGraph", err))
		return g
	}
	g.exec, g.outer = exec.Owned(), exec
	g.guard()
	return g
}

// Device is where the graph's tensors are.
func (g *Graph) Device() device.Device {
	if g == nil {
		return nil
	}
	return g.dev
}

// Exec is the stream and the allocator that the graph's operations use. What is made under it belongs to whoever makes it, with
// the safety net of package tensor.
func (g *Graph) Exec() tensor.Exec {
	if g == nil {
		return tensor.Exec{}
	}
	return g.outer
}

// GradEnabled reports whether operations record how to compute gradients.
func (g *Graph) GradEnabled() bool { return g != nil && !g.noGrad }

// NoGrad runs f without recording: what it makes requires no gradient, and saves nothing. Leaves made inside are as outside.
// It returns what f returns.
func (g *Graph) NoGrad(f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("NoGrad")
	}
	defer func(before bool) { g.noGrad = before }(g.noGrad)
	g.noGrad = true
	return f()
}

// Err returns the first error of the graph: the operation, the shapes and the place. Of a nil graph, and of one that NewGraph has not
// made, it is ErrNilGraph. After an error, operations do nothing
// and return a variable without a value, so that a chain of them needs to be checked only once, at its end.
func (g *Graph) Err() error {
	if g == nil || g.ledger == nil {
		return ErrNilGraph
	}
	return g.err
}

// Fail makes err the graph's error, unless it has one, and nil is ignored. Modules use it for mistakes that they find.
func (g *Graph) Fail(err error) {
	if g != nil && g.err == nil && err != nil {
		g.err = err
	}
}

// without is what a method returns that was given no function to run. There is no variable of a nil graph.
func (g *Graph) without(use string) *Variable {
	if g == nil {
		return nil
	}
	if g.ready(use) {
		g.Refuse(use, &tensor.ValueError{Op: use, Detail: "the function is nil"})
	}
	return g.poison
}

// fail is Fail for functions that return a variable.
func (g *Graph) fail(err error) *Variable {
	g.Fail(err)
	return g.poison
}

// ready reports whether operations may run. Using a released graph is an error of its own.
func (g *Graph) ready(use string) bool {
	if g.ledger == nil { // the zero value
		return false
	}
	if g.released {
		g.Fail(&ReleasedError{Use: use, Reason: GraphReleased, Site: callSite()})
	}
	return g.err == nil
}

// Release frees everything that the graph still holds. Afterwards the allocator counts exactly what the leaves hold:
// parameters, their gradients, optimizer state, inputs. Any later use of one of the graph's variables is an error that says
// so. Releasing again does nothing. It may be called at any time, also inside a scope and after an error; memory is safe to
// reuse at once, because it is reused in the order of the stream. In a hook or a Function the memory goes when the operation or
// the pass that called it has ended, with an error.
func (g *Graph) Release() {
	if g == nil || g.ledger == nil || g.released {
		return
	}
	g.released = true
	if g.busy == 0 {
		g.end()
	}
}

// end frees what a released graph holds.
func (g *Graph) end() {
	g.unguard()
	g.params, g.memo, g.scope, g.foreign, g.gradients = nil, nil, nil, nil, nil
	g.ledger.releaseAll()
	runtime.KeepAlive(g)
}

// enter is called before functions of users are, and leave after them, also when they panic.
func (g *Graph) enter() { g.busy++ }

func (g *Graph) leave() {
	if g.busy--; g.busy == 0 && g.released {
		g.end()
	}
}

// open is an error if a function of the user has released the graph.
func (g *Graph) open(use string) error {
	if g.released {
		return &ReleasedError{Use: use, Reason: GraphReleased}
	}
	return nil
}

// Generator is what the graph's random operations draw from.
func (g *Graph) Generator() *tensor.Generator {
	if g == nil {
		return nil
	}
	if g.gen == nil {
		g.gen = FreshGenerator()
	}
	return g.gen
}

// SetCaster replaces the caster for the operations that follow and returns the one before, so that a region can put it
// back. Nil switches casting off.
func (g *Graph) SetCaster(c Caster) Caster {
	if g == nil {
		return nil
	}
	old := g.caster
	if err := nilPointer("SetCaster", "caster", c); err != nil {
		g.Fail(called("SetCaster", err))
		c = nil
	}
	g.caster = c
	return old
}
