package comm

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
)

// meetings is where the ranks of one process find each other: a meeting for each number of a collective. The last rank to come does the
// work for all, while the others wait. The lock is held neither while it works nor while anybody waits.
type meetings struct {
	size  int
	limit time.Duration
	over  chan struct{} // closed when fault is set

	mu     sync.Mutex
	open   map[uint64]*meeting // ranks are missing
	fault  *Fault              // the first one: it ended the group
	closed []bool              // by rank
}

// meeting is one collective that ranks have come to.
type meeting struct {
	calls   []*Call       // by rank; nil for those who have not come
	arrived int           // under the lock of meetings
	done    chan struct{} // closed when the work is done
	err     *Fault        // of the work; before done is closed
	mixed   bool          // the calls are not the same; under the lock of meetings
	differs chan struct{} // closed when mixed is set
}

// grace is how long ranks that have called different things wait for the others: by what most of them call it is known who is wrong.
const grace = time.Second

func newMeetings(size int, limit time.Duration) *meetings {
	return &meetings{size: size, limit: limit, over: make(chan struct{}), open: make(map[uint64]*meeting), closed: make([]bool, size)}
}

// meet brings a rank to the meeting of a number and returns when the work is done, or will not be.
func (g *meetings) meet(ctx context.Context, number uint64, rank int, c Call) error {
	m, last, fault := g.arrive(number, rank, c)
	if fault == nil && last {
		fault = g.work(m)
	} else if fault == nil {
		var err error
		if fault, err = g.await(ctx, m, c); err != nil {
			return &Error{Backend: loopbackName, Operation: c.Operation, Rank: rank, Peer: -1, Err: err}
		}
	}
	if fault != nil {
		return fault.On(loopbackName, rank, c.Operation)
	}
	return nil
}

// arrive notes that a rank has come, and whether it is the last. A rank that calls something else ends the group, when it is known which one that is, as does one that waits
// for a rank which has gone.
func (g *meetings) arrive(number uint64, rank int, c Call) (m *meeting, last bool, fault *Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault != nil {
		return nil, false, g.fault
	}
	m = g.open[number]
	if m == nil {
		m = &meeting{calls: make([]*Call, g.size), done: make(chan struct{}), differs: make(chan struct{})}
		g.open[number] = m
	}
	if !m.mixed && m.differ(c) {
		m.mixed = true
		close(m.differs)
	}
	m.calls[rank] = &c
	m.arrived++
	if fault = g.gone(m); m.mixed && (fault != nil || m.arrived == g.size) {
		fault = m.judge()
	}
	if fault != nil {
		g.endLocked(fault)
		return m, false, fault
	}
	if m.arrived == g.size {
		delete(g.open, number)
	}
	return m, m.arrived == g.size, nil
}

// differ reports whether a call is another one than those of the ranks who came before.
func (m *meeting) differ(c Call) bool {
	for _, o := range m.calls {
		if o != nil && !o.Matches(c) {
			return true
		}
	}
	return false
}

// judge is the fault of the first rank that calls something else than most of those who have come; of equally many, than the lowest.
func (m *meeting) judge() *Fault {
	most, votes := -1, 0
	for rank, c := range m.calls {
		if c == nil {
			continue
		}
		same := 0
		for _, o := range m.calls {
			if o != nil && o.Matches(*c) {
				same++
			}
		}
		if same > votes {
			most, votes = rank, same
		}
	}
	for rank, c := range m.calls {
		if c != nil && !c.Matches(*m.calls[most]) {
			return Mismatch(most, m.calls[most].String(), rank, c.String())
		}
	}
	return nil
}

// Mismatch is the fault of two ranks that make different calls.
func Mismatch(rank int, call string, other int, otherCall string) *Fault {
	return &Fault{Peer: other, Other: rank, Err: ErrMismatch, Detail: fmt.Sprintf("rank %d calls %s, rank %d %s", rank, call, other, otherCall)}
}

// gone returns the fault of a meeting to which a rank will not come, as it was closed. The caller holds the lock.
func (g *meetings) gone(m *meeting) *Fault {
	for rank, closed := range g.closed {
		if closed && m.calls[rank] == nil {
			return &Fault{Peer: rank, Err: ErrPeer, Detail: fmt.Sprintf("it was closed before %v", m.call())}
		}
	}
	return nil
}

// call is what those who have come are about to do.
func (m *meeting) call() Call {
	for _, c := range m.calls {
		if c != nil {
			return *c
		}
	}
	return Call{}
}

// await waits for the others and the work. err is the context's.
func (g *meetings) await(ctx context.Context, m *meeting, c Call) (fault *Fault, err error) {
	timer := time.NewTimer(g.limit)
	defer timer.Stop()
	select {
	case <-m.done:
		return m.err, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.over:
	case <-timer.C:
	case <-m.differs:
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-g.over:
		case <-timer.C:
		case <-time.After(grace):
		}
	}
	g.mu.Lock()
	if m.arrived == g.size && !m.mixed { // the last one works with this rank's memory: not a moment to leave
		g.mu.Unlock()
		<-m.done
		return m.err, nil
	}
	defer g.mu.Unlock()
	if m.mixed {
		g.endLocked(m.judge())
	}
	g.endLocked(m.late(c, g.limit)) // unless the group is over for another reason
	return g.fault, nil
}

// late is the fault of the ranks that have not come.
func (m *meeting) late(c Call, limit time.Duration) *Fault {
	var missing []int
	for rank, call := range m.calls {
		if call == nil {
			missing = append(missing, rank)
		}
	}
	return Late(missing, c.String(), limit)
}

// Late is the fault of ranks that did not come to a call within the time limit.
func Late(missing []int, call string, limit time.Duration) *Fault {
	f := &Fault{Peer: -1, Err: ErrTimeout}
	f.Detail = fmt.Sprintf("%s has waited for %v", call, limit)
	if len(missing) > 0 {
		f.Peer = missing[0]
		f.Detail = fmt.Sprintf("%s has waited for %v for %s", call, limit, RankNames(missing))
	}
	return f
}

// RankNames names some of a list of ranks, for errors: "rank 1", "ranks 1, 2, 5 and 60 more".
func RankNames(list []int) string {
	const most = 8
	if len(list) == 1 {
		return fmt.Sprintf("rank %d", list[0])
	}
	var names []string
	for _, rank := range list[:min(most, len(list))] {
		names = append(names, fmt.Sprint(rank))
	}
	text := "ranks " + strings.Join(names, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// work does the collective for all ranks and lets them go. Memory that is not there ends the group and not the program.
func (g *meetings) work(m *meeting) (fault *Fault) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			cause := &device.PanicError{Value: value, Stack: debug.Stack()}
			fault = &Fault{Peer: -1, Err: cause, Detail: fmt.Sprintf("%v: a buffer of some rank is not its memory", m.call())}
			g.end(fault)
		}
		m.err = fault
		close(m.done)
	}()
	perform(m.calls)
	return nil
}

// end ends the group, unless it is over already.
func (g *meetings) end(f *Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(f)
}

func (g *meetings) endLocked(f *Fault) {
	if g.fault == nil {
		g.fault = f
		close(g.over)
		clear(g.open)
	}
}

// leave notes that a rank was closed: who waits for it need not any more.
func (g *meetings) leave(rank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed[rank] = true
	for _, m := range g.open {
		f := g.gone(m)
		if f != nil && m.mixed {
			f = m.judge()
		}
		if f != nil {
			g.endLocked(f)
			return
		}
	}
}

// left reports whether a rank was closed.
func (g *meetings) left(rank int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed[rank]
}

// usable returns why a rank can make no calls any more.
func (g *meetings) usable(rank int, operation string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed[rank] {
		return &Error{Backend: loopbackName, Operation: operation, Rank: rank, Peer: -1, Err: device.ErrClosed}
	}
	if g.fault != nil {
		return g.fault.On(loopbackName, rank, operation)
	}
	return nil
}
