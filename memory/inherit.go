package memory

import (
	"reflect"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory/internal/streams"
)

// Memory is reused on its own stream only, so what is cached for a stream that was closed would serve nobody any more; a program
// that opens a stream for each request would take more and more. PyTorch never meets that: its streams are a fixed number and
// live for ever. Here a new stream takes the shard of a closed one over, with the memory, the counts and the objects of blocks,
// also those still held or pending. That is safe because Close has waited for the stream's work: nothing on the device uses the
// memory but what RecordStream noted, for which there are events. So there are never more shards than streams that were open at
// once. Until a new stream comes, the memory goes back to the driver like any other: with EmptyCache, and under pressure.
//
// The memory of private pools that took part in a graph capture stays where it is: what was captured runs later.

// binding is the stream that a shard serves. It never changes; the shard gets another one.
type binding struct {
	shard  *shard
	stream device.Stream
	id     device.StreamID
	known  device.Stream // stream, to compare others with; nil if values of its type cannot be compared
	key    streamKey     // of stream

	reporter device.CloseReporter // stream, if it says whether it was closed; else nil
}

// closed reports whether the stream says that it was closed.
func (b *binding) closed() bool { return b.reporter != nil && b.reporter.Closed() }

// open is nil, or the error of call if the stream was closed.
func (b *binding) open(call string) error {
	if b.closed() {
		return closedStream(call, b.shard.owner.id, b.id)
	}
	return nil
}

func (sh *shard) id() device.StreamID   { return sh.bound.Load().id }
func (sh *shard) stream() device.Stream { return sh.bound.Load().stream }

// bind makes sh the shard of a stream. Caller holds a.mu and peaks.mu.
func (a *Caching) bind(sh *shard, s device.Stream) {
	b := &binding{shard: sh, stream: s, id: s.ID(), key: streamKeyOf(s)}
	b.reporter, _ = s.(device.CloseReporter)
	if reflect.ValueOf(s).Comparable() {
		b.known = s
	}
	sh.bound.Store(b)
	if sh.pool == nil {
		a.direct[b.key.place()].Store(b)
	}
}

// orphan returns the shard of a pool whose stream was closed, the one with the most memory cached, or nil. Caller holds a.mu.
func (a *Caching) orphan(pool *Pool) (found *shard) {
	if pool != nil && pool.captured.Load() {
		return nil
	}
	most := uint64(0)
	for _, sh := range *a.shards.Load() {
		if sh.pool != pool || !streams.Closed(sh.stream()) {
			continue
		}
		sh.mu.Lock()
		cached := sh.pools[smallPool].bytes + sh.pools[largePool].bytes
		sh.mu.Unlock()
		if found == nil || cached > most {
			found, most = sh, cached
		}
	}
	return found
}

// bequeath gives the shard of a closed stream to s. An Alloc that is under way for the closed one may still be served by it: no
// work can be enqueued there. Caller holds a.mu and peaks.mu.
func (a *Caching) bequeath(sh *shard, s device.Stream) {
	a.spoil()
	old := sh.bound.Load()
	if sh.pool == nil {
		a.direct[old.key.place()].CompareAndSwap(old, nil)
	}
	sh.mu.Lock()
	sh.log.Seal()
	sh.log.Stream = s.ID()
	sh.mu.Unlock()
	shards := slices.DeleteFunc(slices.Clone(*a.shards.Load()), func(x *shard) bool { return x == sh })
	a.bind(sh, s)
	i, _ := slices.BinarySearchFunc(shards, shardKey{sh.pool, s.ID()}, compareShard)
	shards = slices.Insert(shards, i, sh)
	a.shards.Store(&shards)
}
