package autograd

import (
	"slices"
	"sync/atomic"

	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/tensor"
)

// What autograd/parallel needs of graphs and parameters, and nobody else: gradients that go elsewhere, values that come and go. Functions with a
// training.Key are for packages of this module, which alone can write it.

// Sink gets the gradient that a backward pass over g has for a parameter, instead of Parameter.Grad; in a checkpoint's second run g is the graph that has the checkpoint. If it returns true, t is its to release; else the gradient is
// added to Grad as ever.
type Sink func(g *Graph, t *tensor.Tensor) (taken bool, err error)

// Divert gives the gradients of p to f, after hooks have seen them; nil ends that. The parameter need not have a value then when they come. Hooks of
// RegisterPostAccumulateGradHook are not called then, whether f takes a gradient or not: who gives it to a parameter does so (CallPostHooks).
func Divert(_ training.Key, p *Parameter, f Sink) {
	if p != nil {
		p.diverted = f
	}
}

// Diverted reports whether the gradients of p go to a sink.
func Diverted(_ training.Key, p *Parameter) bool { return p != nil && p.diverted != nil }

// Sharding is what is known of a parameter whose gradients several ranks share out: of the model's own, and of the part of it that a rank has, which is a parameter too. Texts are for errors, and name the
// parameter; empty ones do not apply.
type Sharding struct {
	Instead string        // of the model's own: where its gradients go, which never come to Grad
	Part    string        // of a part: whose it is
	Behind  func() string // of the model's own: why its value is not that of the last update; nil for never
	Away    func() string // of the model's own: where its value is while it has none, in place of what Put was told; nil for that
	Version func() uint32 // of the model's own, whose value comes and goes: counts the changes of it; nil where it stays
	Waiting func() string // of a part: why Grad does not have all that it will have; nil for never
	Refuses func() string // why SetGrad is refused, "" if it is not; nil for never
	Cleared func()        // what else ZeroGrad and Release release; nil for nothing

	Bars func(g *Graph) error // of the model's own: why a backward pass over g may not begin that has a gradient for it; nil for never. In a checkpoint's second run g is the graph that has the checkpoint
}

// Shard says so of p; nil ends that.
func Shard(_ training.Key, p *Parameter, s *Sharding) {
	if p == nil {
		return
	}
	sharedOut.Add(s.ofParts() - p.sharding.ofParts())
	p.sharding = s
}

// ofParts is 1 for the sharding of a model's own parameter, of which ranks have parts, else 0.
func (s *Sharding) ofParts() int64 {
	if s == nil || s.Instead == "" {
		return 0
	}
	return 1
}

// sharedOut counts the parameters whose gradients ranks share out.
var sharedOut atomic.Int64

// MayHaveNoPart reports whether a list of parameters may rightly be empty: there are models in this process of which ranks have parts, and a rank may have none of what a list was made of.
func MayHaveNoPart(training.Key) bool { return sharedOut.Load() > 0 }

// Instead is where the gradients of p go that never come to its Grad, "" of others.
func Instead(_ training.Key, p *Parameter) string {
	if p == nil || p.sharding == nil {
		return ""
	}
	return p.sharding.Instead
}

// Behind is why the value of p is not that of the last update, "" if it is: a copy now would have another one on each rank.
func Behind(_ training.Key, p *Parameter) string { return p.behind() }

func (p *Parameter) behind() string {
	if p == nil || p.sharding == nil || p.sharding.Behind == nil {
		return ""
	}
	return p.sharding.Behind()
}

// PartOf is whose part p is, which is one of several ranks: what looks at all gradients together, as a norm does, would have another result on each. It is "" of others.
func PartOf(_ training.Key, p *Parameter) string {
	if p == nil || p.sharding == nil {
		return ""
	}
	return p.sharding.Part
}

// Waiting is why Grad does not have all that it will have, "" if it does: a step now would leave that out.
func Waiting(_ training.Key, p *Parameter) string { return p.waiting() }

func (p *Parameter) waiting() string {
	if p == nil || p.sharding == nil || p.sharding.Waiting == nil {
		return ""
	}
	return p.sharding.Waiting()
}

// barred is why a backward pass over g may not have a gradient for p.
func (p *Parameter) barred(g *Graph) error {
	if p == nil || p.sharding == nil || p.sharding.Bars == nil {
		return nil
	}
	return p.sharding.Bars(g.outermost())
}

// DropGrad releases the gradient of p alone, and nothing that ZeroGrad releases besides.
func DropGrad(_ training.Key, p *Parameter) {
	if p != nil {
		p.dropGrad()
	}
}

// divert gives t, which it takes over if that is the result, to the parameter's sink.
func (p *Parameter) divert(g *Graph, t *tensor.Tensor) (taken bool, err error) {
	taken, err = p.diverted(g.outermost(), t)
	if err != nil && !taken {
		t.Release()
	}
	return taken, err
}

// Put makes t, which it takes over, p's value, whatever the value was; what was there is released. Without a value p is away, and reason says where, for the
// errors of its uses. t has p's shape; the gradient stays as it is.
func Put(_ training.Key, p *Parameter, t *tensor.Tensor, reason string) {
	if p == nil {
		return
	}
	old := p.value
	p.value, p.away, p.awaits = nil, reason, nil
	if t != nil {
		p.value, p.away = take(t), ""
	}
	old.Release()
}

// Away is why a parameter that Put has left without a value has none, "" of others.
func Away(_ training.Key, p *Parameter) string {
	if p == nil {
		return ""
	}
	return p.whereAway()
}

// whereAway is where p's value is while Put has left it without one, "" of others.
func (p *Parameter) whereAway() string {
	if p.away == "" || p.sharding == nil || p.sharding.Away == nil {
		return p.away
	}
	return p.sharding.Away()
}

// comesAndGoes reports whether p has its value for a time only, which is another tensor each time.
func (p *Parameter) comesAndGoes() bool { return p.sharding != nil && p.sharding.Version != nil }

// Forget releases the value that g has of a parameter whose value goes away, and reports whether there was one that gradients flow to. Gradients still
// reach the parameter; a later use takes the value that it has then.
func Forget(_ training.Key, g *Graph, p *Parameter) (requires bool) {
	if g == nil || g.released {
		return false
	}
	leaf, ok := g.params[p]
	if !ok || !leaf.v.Alive() {
		return false
	}
	leaf.v.release(ScopeEnded)
	return leaf.requires
}

// IsReleased reports whether g was released: no backward pass of it comes any more.
func IsReleased(_ training.Key, g *Graph) bool { return g != nil && g.released }

// InBackward reports whether a backward pass over g is under way.
func InBackward(_ training.Key, g *Graph) bool { return g != nil && g.running }

// PassWatcher is told of the backward passes over a graph.
type PassWatcher interface {
	// Reached reports whether the pass under way has come to something that is watched.
	Reached() bool
	// Ended is called when a pass ends, with its error, before what it has left is handed on to the streams of the leaves. What it returns is the pass's error. A pass is not concerned if it came without an error
	// to what other watchers of the graph watch, and not to this.
	Ended(err error, concerned bool) error
	// Refused is called when Backward does not begin, which leaves the graph as it was, and when a panic has ended a pass of Grad, after which none will begin. What it returns is the error.
	Refused(err error) error
	// Admit is called for a gradient of a parameter that no sink takes, before the parameter gets it, also in the second run of a checkpoint. Its error ends the pass.
	Admit(p *Parameter) error
}

// WatchPasses tells w of every backward pass over g. Watchers are compared: one is told once, however often it is given, and after those that were given before the last time.
func WatchPasses(_ training.Key, g *Graph, w PassWatcher) {
	if g == nil || w == nil {
		return
	}
	others := slices.DeleteFunc(slices.Clone(g.watching), func(have PassWatcher) bool { return have == w }) // the list may be under way
	g.watching = append(others, w)
}

// PassWatchers are those of g, in the order in which they are told. Nil has none.
func PassWatchers(_ training.Key, g *Graph) []PassWatcher {
	if g == nil {
		return nil
	}
	return g.watching
}

// WatchesPasses reports whether w was given to WatchPasses for g.
func WatchesPasses(_ training.Key, g *Graph, w PassWatcher) bool {
	return g != nil && w != nil && slices.Contains(g.watching, w)
}

// outermost is the graph in which g is the second run of a checkpoint, or g.
func (g *Graph) outermost() *Graph {
	for g.within != nil {
		g = g.within
	}
	return g
}

// ended tells those who watch.
func (b *backward) ended(err error) error {
	reached := slices.ContainsFunc(b.g.watching, PassWatcher.Reached)
	for _, w := range b.g.watching {
		err = w.Ended(err, err != nil || !reached || w.Reached())
	}
	if err == nil && !b.g.released {
		err = b.g.lead()
	}
	return err
}

// admit asks those who watch whether p may have its gradient.
func (g *Graph) admit(p *Parameter) error {
	for _, w := range g.outermost().watching {
		if err := w.Admit(p); err != nil {
			return err
		}
	}
	return nil
}

// refused tells them of a pass that does not begin; in the middle of another one it is that one's own affair.
func (g *Graph) refused(err error) error {
	if g == nil || g.running {
		return err
	}
	for _, w := range g.watching {
		err = w.Refused(err)
	}
	return err
}

// ModuleWatcher is told when the forward pass of a module begins, before what it computes, and when it ends, after its scope. An error of Enter is the graph's.
type ModuleWatcher interface {
	Enter(g *Graph, m Located) error
	Leave(g *Graph, m Located)
	// Repeat is called before the function of a checkpoint runs once more, in g, with the parameters whose values come and go (Sharding.Version) that it has used and that were there when it had run at first: those of modules
	// around it, which do not begin again. What it returns is called when the function has run. An error is that of the backward pass.
	Repeat(g *Graph, used []*Parameter) (done func(), err error)
}

// WatchModules tells w of the modules whose forward passes begin in f, also when a checkpoint repeats them.
func WatchModules(_ training.Key, g *Graph, w ModuleWatcher, f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("WatchModules")
	}
	defer func(before ModuleWatcher) { g.watcher = before }(g.watcher)
	g.watcher = w
	return f()
}

// WatchParameters tells use of the parameters that f takes into the graph, each time before it does, also in the function of a checkpoint. An error of use is the graph's.
func WatchParameters(_ training.Key, g *Graph, use func(p *Parameter) error, f func() *Variable) *Variable {
	if g == nil || f == nil {
		return g.without("WatchParameters")
	}
	defer func(before func(p *Parameter) error) { g.uses = before }(g.uses)
	g.uses = use
	return f()
}
