package memory

import (
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/internal/memmeter"
	"github.com/cistern-ml/cistern/internal/training"
	"github.com/cistern-ml/cistern/memory/internal/journal"
	"github.com/cistern-ml/cistern/memory/internal/text"
)

// A tape is told of what a trace would have, whatever history the program records, and with whatever options. Package autograd/fit sees by one whether a
// program does the same again.

// StartTape begins to tell f of each block and segment that comes or goes, until stop is called. It is called under a lock of the allocator, by one
// goroutine at a time for each stream and pool, and must not call the allocator. An allocator has one tape. It is for packages of this module, which alone
// can write the key. The error is an *ArgumentError.
func StartTape(_ training.Key, a *Caching, f func(memmeter.Event)) (stop func(), err error) {
	switch {
	case a.absent():
		return nil, argumentErr("StartTape", text.NilAllocator)
	case f == nil:
		return nil, argumentErr("StartTape", text.NilFunction)
	case !a.tape.CompareAndSwap(nil, &f):
		return nil, argumentErr("StartTape", "the allocator has a tape already")
	}
	endHistory, err := a.ShareHistory(HistoryOptions{Enabled: HistoryState, Context: ContextNone}) // what is noted is what tapes are told
	if err != nil {
		a.tape.Store(nil)
		return nil, err
	}
	return func() {
		a.tape.Store(nil)
		endHistory()
	}, nil
}

// tell tells the tape, if there is one, of an entry that is written. Caller holds sh.mu.
func (sh *shard) tell(act journal.Action, addr device.Ptr, bytes uint64) {
	if f := sh.owner.tape.Load(); f != nil {
		(*f)(memmeter.Event{Action: uint8(act), Addr: uint64(addr), Bytes: bytes, Stream: int64(sh.id()), Pool: sh.poolID(),
			Segment: act == journal.SegmentAlloc})
	}
}
