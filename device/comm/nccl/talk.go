package nccl

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/comm/nccl/internal/libnccl"
)

// talk is what the ranks say to each other beside NCCL, which tells neither who is missing nor who is gone. Every rank has a connection to
// rank 0, which puts together what it hears.
type talk struct {
	id         [libnccl.UniqueIDBytes]byte
	rank, size int
	limit      time.Duration
	check      bool
	address    string                                                // where rank 0 listens, as in Options
	declined   *comm.Fault                                           // why this rank does not come; nil if it does
	end        func(*comm.Fault)                                     // of the group, as another rank tells it
	where      func(number uint64) (called, begun bool, text string) // this rank's answer
	closedAt   func(peer int, number uint64) *comm.Fault             // another rank makes no call from a number on: what that means for this one

	links   []*link // of rank 0: by rank, nil for itself; of others: that to rank 0 alone
	readers sync.WaitGroup
	asking  sync.Mutex // held while rank 0 asks all

	mu      sync.Mutex
	over    bool               // nothing that comes counts any more
	left    []bool             // by rank: it was closed, and its connection may end
	closes  map[int]uint64     // by rank: it has closed, and makes no call from this number on
	answers chan fromRank      // of the question that is open
	calls   map[uint64][]check // about to be made by some ranks and not by all (rank 0)
	agreed  chan struct{}      // has a token when all are about to make the call that this rank waits with; there is one such call at a time
	verdict chan struct{}      // closed when it is over
}

type fromRank struct {
	rank int
	notice
}

// check is a call of one rank.
type check struct {
	rank int
	text string
}

func newTalk(g Group, o Options) *talk {
	return &talk{rank: g.Rank, size: g.Size, limit: o.TimeLimit, check: o.Check, address: o.Address, left: make([]bool, g.Size), calls: make(map[uint64][]check),
		closes: make(map[int]uint64), agreed: make(chan struct{}, 1), answers: make(chan fromRank, 2*g.Size), verdict: make(chan struct{})}
}

// meet makes the talk: rank 0 listens, and the others come.
func (r *rank) meet(ctx context.Context, g Group) (*talk, error) {
	t := newTalk(g, r.options)
	t.where, t.closedAt = r.where, r.closedAt
	t.end = func(f *comm.Fault) { r.end(f, false) }
	if g.Rank == 0 {
		id, result := r.lib.UniqueID()
		if result != libnccl.Success {
			return nil, t.decline(ctx, g, r.failed("Open", libnccl.GetUniqueID, result))
		}
		t.id = id
	}
	var err error
	switch {
	case g.Size == 1:
	case g.Rank == 0:
		err = t.host(ctx, g)
	default:
		err = t.come(ctx, g)
	}
	if err != nil {
		t.close()
		return nil, unmet(g.Rank, err)
	}
	for _, l := range t.links {
		if l != nil {
			t.readers.Add(1)
			go t.read(l)
		}
	}
	return t, nil
}

// unmet is the error of a rank that has not met the others.
func unmet(rank int, err error) error {
	e := &comm.Error{Backend: backend, Operation: "Open", Rank: rank, Peer: -1, Err: comm.ErrUnavailable, Detail: err.Error()}
	var known *comm.Error
	switch {
	case !errors.As(err, &known):
		return e
	case known.Backend == backend:
		return err
	}
	e.Peer, e.Err, e.Detail = known.Peer, &otherGroup{err}, known.Error()
	return e
}

// otherGroup is what another Comm, by which the ranks were to hear of each other, has failed with.
type otherGroup struct{ cause error }

func (o *otherGroup) Error() string { return "the Comm that brings rank 0's greeting has failed" }
func (o *otherGroup) Unwrap() error { return o.cause }

// foreign reports whether err is that of another Comm.
func foreign(err error) bool {
	var known *comm.Error
	return errors.As(err, &known) && known.Backend != backend
}

// lookout is how long a rank that is not to join a group looks for the others, to tell them why there will be none.
const lookout = 10 * time.Second

// decline meets the others only to tell them that this rank does not come, for which they would wait until the limit. It returns why.
func (t *talk) decline(ctx context.Context, g Group, why error) error {
	if t.size == 1 {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, lookout)
	defer cancel()
	defer t.close()
	t.declined = &comm.Fault{Peer: t.rank, Err: comm.ErrUnavailable, Detail: why.Error()}
	var own *comm.Error
	if errors.As(why, &own) && own.Backend == backend {
		t.declined.Detail = own.Detail
	}
	if t.rank == 0 {
		_ = t.host(ctx, g) // what keeps the ranks from meeting is not what this one's caller must hear of
	} else {
		_ = t.come(ctx, g)
	}
	return why
}

// host lets the other ranks come. Once it is known that the group will never be whole, those that come are told, and nobody waits for the limit.
func (t *talk) host(ctx context.Context, g Group) error {
	address := t.address
	if address == "" {
		address = ":0"
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	text := greeting{id: t.id, addresses: addresses(l.Addr())}
	if _, err := rand.Read(text.token[:]); err != nil {
		return err
	}
	if err := g.Exchange(ctx, text.encode()); err != nil {
		return err
	}
	t.links = make([]*link, t.size)
	fault := t.declined
	for missing := t.size - 1; missing > 0; {
		c, err := l.Accept()
		if err != nil && fault == nil {
			return t.absent(ctx, err)
		}
		if err != nil {
			break
		}
		peer := newLink(c)
		came, f := t.admit(peer, text.token[:])
		if came || f != nil {
			missing--
		}
		switch {
		case fault != nil && came:
			peer.send(endingOf(fault))
		case fault == nil && f != nil:
			fault = f
			t.refuse(f)
			defer time.AfterFunc(lookout, func() { _ = l.Close() }).Stop()
		}
	}
	if fault != nil {
		return fault.On(backend, t.rank, "Open")
	}
	for _, l := range t.links[1:] {
		l.send(notice{Kind: welcome})
	}
	return nil
}

// absent is the error of rank 0 when the others do not come, which those that have are told.
func (t *talk) absent(ctx context.Context, err error) error {
	var missing []int
	for rank, l := range t.links {
		if rank > 0 && l == nil {
			missing = append(missing, rank)
		}
	}
	if ctx.Err() == nil {
		return err
	}
	f := comm.Late(missing, "Open", t.limit)
	t.refuse(f)
	return f.On(backend, t.rank, "Open")
}

// refuse tells those that have come why the group does not open.
func (t *talk) refuse(f *comm.Fault) {
	for _, l := range t.links {
		if l != nil {
			l.send(endingOf(f))
		}
	}
}

// helloPatience is how long a connection may take to say who it is.
const helloPatience = 5 * time.Second

// admit takes a connection in if it is that of a rank of this group which has not come yet. A rank that takes the group for another one is told, and is
// the fault, as is one that has come to say that it does not join.
func (t *talk) admit(l *link, token []byte) (came bool, f *comm.Fault) {
	_ = l.conn.SetReadDeadline(time.Now().Add(helloPatience))
	n, err := l.receive()
	_ = l.conn.SetReadDeadline(time.Time{})
	known := err == nil && n.Kind == hello && subtle.ConstantTimeCompare(n.Token, token) == 1
	why := ""
	switch {
	case !known:
		_ = l.conn.Close() // no rank: nothing is said to it
		return false, nil
	case n.Size != t.size:
		why = fmt.Sprintf("rank %d takes the group for one of %d ranks, rank 0 for one of %d", n.Rank, n.Size, t.size)
	case n.Rank < 1 || n.Rank >= t.size:
		why = fmt.Sprintf("rank %d of %d", n.Rank, t.size)
	case t.links[n.Rank] != nil:
		why = fmt.Sprintf("two processes are rank %d: %s and process %d on %s", n.Rank, t.links[n.Rank].who, n.PID, n.Host)
	case n.Check != t.check:
		why = fmt.Sprintf("Options.Check is %v on rank 0, and %v on rank %d: it must be the same on all ranks", t.check, n.Check, n.Rank)
	case time.Duration(n.Limit) != t.limit:
		why = fmt.Sprintf("Options.TimeLimit is %v on rank 0, and %v on rank %d: it must be the same on all ranks", t.limit, time.Duration(n.Limit), n.Rank)
	case n.Text != "":
		f = &comm.Fault{Peer: n.Rank, Err: comm.ErrUnavailable, Detail: n.Text}
	}
	if why != "" {
		f := &comm.Fault{Peer: n.Rank, Other: 0, Err: comm.ErrMismatch, Detail: why}
		l.send(endingOf(f))
		_ = l.conn.Close()
		return false, f
	}
	l.rank, l.who = n.Rank, fmt.Sprintf("process %d on %s", n.PID, n.Host)
	t.links[n.Rank] = l
	return true, f
}

// addresses are where a listener can be reached: its own, or all of the machine if it listens everywhere.
func addresses(a net.Addr) string {
	own, ok := a.(*net.TCPAddr)
	if !ok || !own.IP.IsUnspecified() {
		return a.String()
	}
	port := fmt.Sprint(own.Port)
	list := []string{}
	all, _ := net.InterfaceAddrs()
	for _, each := range all {
		if n, ok := each.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			list = append(list, net.JoinHostPort(n.IP.String(), port))
		}
	}
	text := net.JoinHostPort("127.0.0.1", port) // first: on another machine nothing answers there, or what does not know the token
	for _, each := range list {
		if len(text)+1+len(each) <= mostAddresses {
			text += " " + each
		}
	}
	return text
}

// come is a rank's way to rank 0.
func (t *talk) come(ctx context.Context, g Group) error {
	b := make([]byte, GreetingBytes)
	if err := g.Exchange(ctx, b); err != nil {
		if ctx.Err() != nil && !foreign(err) { // that one knows who has not come, and has waited for its own limit
			f := comm.Late([]int{0}, "Open", t.limit)
			f.Detail += ": " + err.Error()
			return f.On(backend, t.rank, "Open")
		}
		return err
	}
	text := decodeGreeting(b)
	if len(strings.Fields(text.addresses)) == 0 {
		return errors.New("what came as rank 0's greeting names no address: rank 0 of this package has not written it")
	}
	t.id = text.id
	var errs []error
	for _, address := range strings.Fields(text.addresses) {
		l, err := t.introduce(ctx, address, text.token[:])
		if err == nil {
			l.rank, l.who = 0, "at "+address
			t.links = []*link{l}
			return nil
		}
		var own *comm.Error
		if errors.As(err, &own) {
			return err
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("rank 0 is not there: %w", errors.Join(errs...))
}

// lastWord is how long a rank waits for what rank 0 says of those who have not come, when its own limit is over, which is rank 0's: the two begin and end at about the same time.
const lastWord = 2 * time.Second

// introduce says hello at an address and waits until all have come. An error of comm's is rank 0's answer.
func (t *talk) introduce(ctx context.Context, address string, token []byte) (*link, error) {
	dialer := net.Dialer{Timeout: helloPatience}
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := newLink(c)
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now().Add(lastWord)) })
	defer stop()
	n := self()
	n.Token, n.Rank, n.Size, n.Check, n.Limit = token, t.rank, t.size, t.check, int64(t.limit)
	if t.declined != nil {
		n.Text = t.declined.Detail
	}
	l.send(n)
	n, err = l.receive()
	switch {
	case err == nil && n.Kind == welcome:
		return l, nil
	case err == nil && n.Kind == ending:
		err = n.fault().On(backend, t.rank, "Open")
	case err != nil && ctx.Err() != nil:
		err = (&comm.Fault{Peer: -1, Err: comm.ErrTimeout, Detail: "the ranks have not all come: " + ctx.Err().Error()}).On(backend, t.rank, "Open")
	}
	_ = c.Close()
	if err == nil {
		err = fmt.Errorf("%s says %q", address, n.Kind)
	}
	return nil, err
}

// read hears what comes by a link until that ends.
func (t *talk) read(l *link) {
	defer t.readers.Done()
	for {
		n, err := l.receive()
		if err != nil {
			t.gone(l)
			return
		}
		t.hear(l, n)
	}
}

// gone is what the end of a connection says.
func (t *talk) gone(l *link) {
	t.mu.Lock()
	silent := t.over || t.left[l.rank]
	t.mu.Unlock()
	if silent {
		return
	}
	f := &comm.Fault{Peer: l.rank, Err: comm.ErrPeer, Detail: "the connection to it (" + l.who + ") has ended"}
	t.conclude(f)
}

// conclude ends the group, on the other ranks first.
func (t *talk) conclude(f *comm.Fault) {
	if t.tell(f) {
		t.end(f)
	}
}

// tell says to the others what ended the group, and reports whether that is news.
func (t *talk) tell(f *comm.Fault) bool {
	if !t.finish() {
		return false
	}
	for _, l := range t.links {
		if l != nil {
			l.send(endingOf(f))
		}
	}
	return true
}

// finish lets nothing more count, and reports whether it did before.
func (t *talk) finish() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	close(t.verdict)
	return true
}

// hear takes one notice.
func (t *talk) hear(l *link, n notice) {
	switch n.Kind {
	case ending:
		f := n.fault()
		if t.rank == 0 {
			t.conclude(f) // and the other ranks
			return
		}
		if t.finish() {
			t.end(f)
		}
	case leaving:
		t.mu.Lock()
		t.left[l.rank] = true
		t.mu.Unlock()
	case question:
		reply := notice{Kind: answer, Number: n.Number}
		reply.Called, reply.Begun, reply.Call = t.where(n.Number)
		l.send(reply)
	case answer:
		select {
		case t.answers <- fromRank{l.rank, n}:
		default: // nobody has asked for so much
		}
	case late:
		go func() { // the reader goes on: it hears the answers
			if f := t.find(n.Number, l.rank, n.Call, n.Text); f != nil {
				t.conclude(f)
			}
		}()
	case called:
		t.compare(n.Number, l.rank, n.Call)
	case agreed:
		t.agreed <- struct{}{}
	case closing:
		if t.rank == 0 {
			n.Peer = l.rank
			t.relay(n)
		}
		t.closed(n.Peer, n.Number)
	}
}

// relay sends a notice of one rank's to all others (rank 0).
func (t *talk) relay(n notice) {
	for rank, l := range t.links {
		if l != nil && rank != n.Peer {
			l.send(n)
		}
	}
}

// closing tells all that this rank makes no call from a number on.
func (t *talk) closing(number uint64) {
	n := notice{Kind: closing, Number: number, Peer: t.rank}
	switch {
	case t.size == 1:
	case t.rank == 0:
		t.relay(n)
	default:
		t.links[0].send(n)
	}
}

// closed hears that of another rank. What it means for this one is asked when it is written down: so this rank's next call sees it, or is seen.
func (t *talk) closed(rank int, number uint64) {
	t.mu.Lock()
	t.closes[rank] = number
	t.mu.Unlock()
	if f := t.closedAt(rank, number); f != nil {
		t.conclude(f)
	}
}

// closedBefore returns a rank that has closed where this one makes the call of a number.
func (t *talk) closedBefore(number uint64) (rank int, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rank, from := range t.closes {
		if from <= number {
			return rank, true
		}
	}
	return 0, false
}

// called tells rank 0 of a call, for the comparison.
func (t *talk) called(number uint64, text string) {
	switch {
	case t.size == 1:
	case t.rank == 0:
		t.compare(number, 0, text)
	default:
		t.links[0].send(notice{Kind: called, Number: number, Call: text})
	}
}

// leave says that this rank ends with all others.
func (t *talk) leave() {
	t.finish()
	for _, l := range t.links {
		if l != nil {
			l.send(notice{Kind: leaving})
		}
	}
}

// close ends the connections, and waits for their readers.
func (t *talk) close() {
	t.finish()
	for _, l := range t.links {
		if l != nil {
			_ = l.conn.Close()
		}
	}
	t.readers.Wait()
}
