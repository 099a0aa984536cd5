package memory

import (
	"cmp"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/journal"
)

// shardOf returns the shard of a stream and makes it at the first use. It fails with a *StreamError, or with device.ErrClosed if the
// stream was closed.
func (a *Caching) shardOf(s device.Stream) (*shard, error) {
	if b := a.bindingOf(s); b != nil {
		return b.shard, b.open("Alloc")
	}
	return a.shardIn(nil, s)
}

// bindingOf is that of a stream that is known by its key, or nil.
func (a *Caching) bindingOf(s device.Stream) *binding {
	key := streamKeyOf(s)
	if b := a.direct[key.place()].Load(); b != nil && b.key == key {
		return b
	}
	return nil
}

// shardIn returns the shard of a stream in a private pool, or the default ones if that is nil, and makes it at the first use. It
// fails like shardOf, and with ErrPoolReleased if there is none and the pool makes no more.
func (a *Caching) shardIn(pool *Pool, s device.Stream) (*shard, error) {
	sh := findShard(*a.shards.Load(), pool, s.ID())
	if sh != nil {
		if b := sh.bound.Load(); b.known == s {
			return sh, b.open("Alloc")
		}
	}
	// The stream is new, or another value than the one that the shard knows: wrapped, or of another device.
	if err := checkOpenStream("Alloc", a.id, a.driver, s); err != nil || sh != nil {
		return sh, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if pool != nil && pool.uses == 0 { // a shard made now would never be given back
		return nil, pool.errReleased("Alloc from")
	}
	return a.addShard(pool, s), nil
}

// findShard looks for the shard of a pool, nil for the default ones, and a stream.
func findShard(shards []*shard, pool *Pool, id device.StreamID) *shard {
	if i, ok := slices.BinarySearchFunc(shards, shardKey{pool, id}, compareShard); ok {
		return shards[i]
	}
	return nil
}

type shardKey struct {
	pool *Pool
	id   device.StreamID
}

func compareShard(sh *shard, key shardKey) int {
	return cmp.Or(comparePools(sh.pool, key.pool), cmp.Compare(sh.id(), key.id))
}

// addShard makes the shard of a pool and a stream unless it is there. Caller holds a.mu.
func (a *Caching) addShard(pool *Pool, s device.Stream) *shard {
	a.peaks.mu.Lock()
	defer a.peaks.mu.Unlock()
	old := *a.shards.Load()
	key := shardKey{pool, s.ID()}
	i, ok := slices.BinarySearchFunc(old, key, compareShard)
	if ok { // another goroutine was faster
		return old[i]
	}
	if sh := a.orphan(pool); sh != nil { // a closed stream's, with its memory (inherit.go)
		a.bequeath(sh, s)
		return sh
	}
	sh := &shard{owner: a, pool: pool, log: journal.Logbook{Stream: key.id}}
	if a.plan != nil && pool == nil {
		sh.steps = newSteps(sh)
		sh.steps.stopped = a.plan.steps == 0
	}
	sh.log.Pool = journal.Pool(sh.poolID())
	sh.log.SetRecorder(a.log.Recorder())
	a.bind(sh, s)                                     // from here on others find it
	shards := slices.Insert(slices.Clone(old), i, sh) // a copy: others read the old list without a lock
	a.shards.Store(&shards)
	return sh // its leases are 0: the first block settles, and gets it a share
}

// lockShards locks all shards, in their order. Caller holds peaks.mu or mu, so that none is added meanwhile. One caller may have
// the one and another the other lock, so it is the order that keeps the two from waiting for each other.
func (a *Caching) lockShards() []*shard {
	shards := *a.shards.Load()
	for _, sh := range shards {
		sh.mu.Lock()
	}
	return shards
}

func unlockShards(shards []*shard) {
	for _, sh := range shards {
		sh.mu.Unlock()
	}
}
