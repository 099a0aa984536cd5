package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/text"
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
//
// filter is called by every Alloc, without a lock and by several goroutines at once. It may call the allocator, except for an Alloc,
// which would call it again. If it panics, the Alloc has done nothing.
func (a *Caching) BeginRoute(p *Pool, filter func(device.Stream) bool) error {
	if a.absent() {
		return argumentErr("BeginRoute", text.NilAllocator)
	}
	if p == nil {
		return argumentErr("BeginRoute", nilPool)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.a != a:
		return argumentErr("BeginRoute", "pool %v is of another allocator", p.id)
	case p.uses == 0:
		return p.errReleased("BeginRoute to")
	case slices.ContainsFunc(a.routing(), func(r route) bool { return r.pool == p }):
		return argumentErr("BeginRoute", "already recording to pool %v", p.id)
	case filter == nil:
		return argumentErr("BeginRoute", text.NilFunction)
	}
	p.uses++
	p.captured.Store(true)
	a.setRoutes(append(slices.Clone(a.routing()), route{p, filter}))
	return nil
}

// EndRoute ends what BeginRoute began, and drops the use of p that it added.
func (a *Caching) EndRoute(p *Pool) error {
	if a.absent() {
		return argumentErr("EndRoute", text.NilAllocator)
	}
	if p == nil {
		return argumentErr("EndRoute", nilPool)
	}
	if p.a != a {
		return argumentErr("EndRoute", "pool %v is of another allocator", p.id)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	routes := slices.Clone(a.routing())
	i := slices.IndexFunc(routes, func(r route) bool { return r.pool == p })
	if i < 0 {
		return argumentErr("EndRoute", "pool %v is on no route", p.id)
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

// allocRouted is Alloc while there are routes. A pool that was released since its route was looked up is on none any more:
// the request goes to the next route that accepts the stream, or to the default pools.
func (a *Caching) allocRouted(bytes uint64, s device.Stream) (Block, error) {
	for _, r := range slices.Backward(a.routing()) {
		if !r.filter(s) {
			continue
		}
		b, err := r.pool.Alloc(bytes, s)
		if err == nil || !errors.Is(err, ErrPoolReleased) {
			return b, err
		}
	}
	sh, err := a.shardOf(s)
	if err != nil {
		return Block{}, err
	}
	return a.allocIn(sh, bytes)
}
