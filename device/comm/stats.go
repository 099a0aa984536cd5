package comm

import "sync/atomic"

// Stats counts the collectives that a rank has enqueued.
type Stats struct {
	Broadcast, AllReduce, ReduceScatter, AllGather, AllToAll, Barrier Traffic
}

// Traffic is what one kind of collective amounts to.
type Traffic struct {
	Calls int64
	Bytes int64 // that the rank sends when the group is a ring: computed from the calls (see Call.Sent), not measured
}

// Total is the sum over the operations.
func (s Stats) Total() (t Traffic) {
	for _, one := range []Traffic{s.Broadcast, s.AllReduce, s.ReduceScatter, s.AllGather, s.AllToAll, s.Barrier} {
		t.Calls += one.Calls
		t.Bytes += one.Bytes
	}
	return t
}

// tally is a Stats that is being counted.
type tally struct {
	broadcast, allReduce, reduceScatter, allGather, allToAll, barrier counter
}

type counter struct{ calls, bytes atomic.Int64 }

func (c *counter) read() Traffic { return Traffic{Calls: c.calls.Load(), Bytes: c.bytes.Load()} }

func (t *tally) add(c Call, rank, size int) {
	one := t.of(c.Operation)
	one.calls.Add(1)
	one.bytes.Add(c.Sent(rank, size))
}

func (t *tally) of(operation string) *counter {
	switch operation {
	case opBroadcast:
		return &t.broadcast
	case opAllReduce:
		return &t.allReduce
	case opReduceScatter:
		return &t.reduceScatter
	case opAllGather:
		return &t.allGather
	case opAllToAll:
		return &t.allToAll
	}
	return &t.barrier
}

func (t *tally) stats() Stats {
	return Stats{
		Broadcast: t.broadcast.read(), AllReduce: t.allReduce.read(), ReduceScatter: t.reduceScatter.read(),
		AllGather: t.allGather.read(), AllToAll: t.allToAll.read(), Barrier: t.barrier.read(),
	}
}
