package amp

import (
	"slices"
	"sync"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// WeightCache keeps the casts of weights from one graph to the next, and makes those that are stale all at once, in one launch. Without one each graph casts
// each weight for itself, one after the other. It is an Option of Autocast and Region:
//
//	weights := amp.NewWeightCache()
//	defer weights.Release()
//	for step := range steps {
//		for part := range parts {                  // gradients of several parts of a batch add up: the weights are cast once
//			g := autograd.NewGraph(dev, amp.Autocast(tensor.BFloat16, weights))
//			...
//			g.Release()
//		}
//		weights.Release()                          // the casts' memory is free for the optimizer
//		err := opt.Step()                          // changes the weights
//	}
//
// A cast is used as long as its weight has neither been changed in place, in whatever view and by whomever, nor been given another value. It stays until
// Release, or until a graph asks for the cast of a weight that has changed: then all casts that are stale are freed, those of them that graphs have used since
// they were made are made anew in one launch, and the others are forgotten. So the first step learns which weights there are, and casts them one by one.
//
// It costs the memory of all casts from the first use to Release: 2 bytes for each number. A graph without one holds as much, but for checkpointed layers, which
// cast for themselves and free that when they are done.
//
// Casts that are made while a device captures a graph serve that one graph alone, and those made before it are not used in it: a replay must cast for itself.
//
// Several graphs, also of several goroutines, may share one. Weights and graphs may be on several devices and streams.
type WeightCache struct {
	mu    sync.Mutex
	casts []*weightCast // in the order of their first use, which is that of their place in memory too
	by    map[weightKey]*weightCast
}

type weightKey struct {
	of    *autograd.Parameter
	dtype tensor.DType
}

// weightCast is the cast of one weight to one type.
type weightCast struct {
	weightKey
	t       *tensor.Tensor  // nil if it was released, or has not been made yet
	value   *tensor.Tensor  // that it was made of
	version uint32          // of it
	only    *autograd.Graph // the one that it is for, if it was made in a capture
	used    bool            // since it was made
}

// NewWeightCache returns one without casts.
func NewWeightCache() *WeightCache { return new(WeightCache) }

// applyTo implements Option.
func (c *WeightCache) applyTo(a *autocast) { a.weights = c }

// Release frees the casts. Graphs that use them keep them for themselves until they are released. The cache may be used again: it remembers which weights there
// were, and casts them at once.
func (c *WeightCache) Release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.casts {
		w.drop()
	}
}

// take returns the cast of a parameter's leaf, which stays the cache's. It is nil if there is none to be had: then the graph casts for itself.
func (c *WeightCache) take(v *autograd.Variable, dt tensor.DType) *tensor.Tensor {
	if c == nil {
		return nil
	}
	p, g := v.Parameter(), v.Graph()
	if p == nil || g.Param(p) != v { // a leaf of a value that the parameter had before
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.find(weightKey{p, dt})
	if !w.fresh(g) {
		w.used = true
		if c.refresh(g, dt) != nil || !w.fresh(g) { // the graph may have the memory for one, or says why not
			return nil
		}
	}
	w.used = true
	return w.t
}

// find is the cast of a parameter, made or not.
func (c *WeightCache) find(k weightKey) *weightCast {
	w := c.by[k]
	if w == nil {
		w = &weightCast{weightKey: k}
		if c.by == nil {
			c.by = make(map[weightKey]*weightCast)
		}
		c.by[k] = w
		c.casts = append(c.casts, w)
	}
	return w
}

// fresh reports whether the cast is that of the weight as it is, and for g.
func (w *weightCast) fresh(g *autograd.Graph) bool {
	value := w.of.Tensor()
	if w.t == nil || value == nil || w.value != value || w.version != value.Version() {
		return false
	}
	if capturing(g.Device()) || w.only != nil {
		return w.only == g
	}
	return true
}

// refresh makes all stale casts of a type that g's stream can make and that have been used, and forgets the others.
func (c *WeightCache) refresh(g *autograd.Graph, dt tensor.DType) error {
	stale := c.forget(g, dt)
	values := make([]*tensor.Tensor, len(stale))
	for i, w := range stale {
		values[i] = w.of.Tensor()
	}
	casts, err := steps.CastMany(values, dt, g.Exec())
	if err != nil {
		return err
	}
	for i, w := range stale {
		w.t, w.value, w.version, w.used = casts[i], values[i], values[i].Version(), false
		if capturing(g.Device()) {
			w.only = g
		}
	}
	return nil
}

// forget frees the stale casts that g's stream can make anew, and returns those that have been used. The others it forgets.
func (c *WeightCache) forget(g *autograd.Graph, dt tensor.DType) (stale []*weightCast) {
	c.casts = slices.DeleteFunc(c.casts, func(w *weightCast) bool {
		value := w.of.Tensor()
		if w.dtype != dt || w.fresh(g) || value != nil && !castableIn(value, g) {
			return false
		}
		w.drop()
		if w.used && value != nil {
			stale = append(stale, w)
			return false
		}
		delete(c.by, w.weightKey)
		return true
	})
	return stale
}

// castableIn reports whether a weight is on g's stream, so that nothing has to be waited for, and one launch takes it with others.
func castableIn(t *tensor.Tensor, g *autograd.Graph) bool {
	e := t.Exec()
	return e.Device() == g.Device() && e.Stream().ID() == g.Exec().Stream().ID() && t.DType() == tensor.Float32 && t.InMemoryFormat()
}

// drop frees the cast.
func (w *weightCast) drop() {
	w.t.Release()
	*w = weightCast{weightKey: w.weightKey, used: w.used}
}

// capturing reports whether what is put on the device's streams now may be part of a graph, which runs later, and again.
func capturing(dev device.Device) bool {
	d, ok := dev.(interface{ Capturing() bool })
	return ok && d.Capturing()
}
