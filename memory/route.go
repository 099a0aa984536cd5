package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/pkg/errors"
)

// route sends requests for some streams to a private pool: how a graph capture, which cannot pass a Pool to the code that
// it captures, gets that code's memory.
type route struct {
	pool   *Pool
	filter func(device.Stream) bool
}

// BeginRoute sends the requests on streams that filter accepts to p, until EndRoute. Routes nest: the innermost that accepts
// a stream counts. It adds a use of p. A pool can be on one route at a time.
func (a *Caching) BeginRoute(p *Pool, filter func(device.Stream) bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.a != a:
		return errors.Errorf("memory: BeginRoute: pool %v is of another allocator", p.id)
	case p.uses == 0:
		return errors.Wrapf(ErrPoolReleased, "memory: BeginRoute to pool %v", p.id)
	case slices.ContainsFunc(a.routing(), func(r route) bool { return r.pool == p }):
		return errors.Errorf("memory: BeginRoute: already recording to pool %v", p.id)
	}
	p.uses++
	a.setRoutes(append(slices.Clone(a.routing()), route{p, filter}))
	return nil
}

// EndRoute ends what BeginRoute began, and drops the use of p that it added.
func (a *Caching) EndRoute(p *Pool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	routes := slices.Clone(a.routing())
	i := slices.IndexFunc(routes, func(r route) bool { return r.pool == p })
	if i < 0 {
		return errors.Errorf("memory: EndRoute: pool %v is on no route", p.id)
	}
	p.uses--
	p.released.Store(p.uses == 0)
	a.setRoutes(slices.Delete(routes, i, i+1))
	return nil
}

func (a *Caching) routing() []route {
	if r := a.routes.Load(); r != nil {
		return *r
	}
	return nil
}

func (a *Caching) setRoutes(routes []route) {
	if len(routes) == 0 {
		a.routes.Store(nil)
		return
	}
	a.routes.Store(&routes)
}

// allocRouted is Alloc while there are routes.
func (a *Caching) allocRouted(bytes uint64, s device.Stream) (Block, error) {
	for _, r := range slices.Backward(a.routing()) {
		if r.filter(s) {
			return r.pool.Alloc(bytes, s)
		}
	}
	return a.allocIn(a.shardOf(s), bytes)
}
