package mpi

import (
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
)

// pause is what a rank does between two looks at a request. Small collectives are done within microseconds, and what large ones move at a
// look is a piece of some kilobytes, so it only lets other threads go first. After a while it is likely that another rank computes, and
// it sleeps between looks.
func pause(tries int) {
	const spins, yields = 16, 300
	switch {
	case tries < spins:
	case tries < yields || tries%8 != 0:
		yield()
	default:
		doze()
	}
}

// patience is one rank's wait for the others in one collective.
type patience struct {
	limit   time.Duration
	since   time.Time
	looked  time.Time      // when it last listened
	checked time.Time      // when it last looked at the processes of this machine
	asked   time.Time      // when it asked the others; zero before
	answers map[int]notice // of the others, by rank
}

// How often a rank that waits listens to the others, and looks at their processes.
const (
	listening = time.Millisecond
	looking   = 250 * time.Millisecond
)

// wait waits until the engine's request is done. It listens to the others meanwhile, and ends when the time limit is over or somebody has
// ended the group.
func (e *engine) wait(p *patience) *comm.Fault {
	for tries := 0; ; tries++ {
		done, err := e.lib.Test(e.request)
		if err != nil {
			return e.explain(err, p)
		}
		if done {
			return nil
		}
		if f := e.attend(p); f != nil {
			return f
		}
		pause(tries)
	}
}

// attend does what is due beside the collective.
func (e *engine) attend(p *patience) *comm.Fault {
	now := time.Now()
	if now.Sub(p.looked) < listening {
		return nil
	}
	p.looked = now
	select {
	case f := <-e.aborts:
		if f != nil {
			return f
		}
	default:
	}
	if f := e.listenWith(p); f != nil {
		return f
	}
	if now.Sub(p.checked) >= looking && now.Sub(p.since) >= looking {
		p.checked = now
		if f := e.peers.ended(e.rank, *e.current); f != nil {
			return f
		}
	}
	switch {
	case p.asked.IsZero() && now.Sub(p.since) >= p.limit:
		e.ask(p)
	case !p.asked.IsZero() && now.Sub(p.asked) >= grace:
		return e.judge(p)
	}
	return nil
}

// listen takes what the others have said while this rank is in no collective.
func (e *engine) listen() *comm.Fault {
	if e.ended() != nil {
		return nil // no MPI calls any more
	}
	return e.listenWith(&patience{})
}

func (e *engine) listenWith(p *patience) *comm.Fault {
	for {
		n, ok, err := e.talk.next()
		if err != nil {
			return libraryFault(err)
		}
		if !ok {
			return nil
		}
		switch n.kind {
		case question:
			e.talk.send(n.from, e.whereabouts(n.number))
		case answer:
			if p.answers != nil {
				p.answers[n.from] = n
			}
		case ending:
			return n.fault()
		}
	}
}

// ask asks all others where they are.
func (e *engine) ask(p *patience) {
	p.asked, p.answers = time.Now(), make(map[int]notice)
	e.talk.sendAll(notice{kind: question, number: e.next})
}

// history is the calls that a rank has begun last, for the question what it called at a number where another one still waits.
type history [64]struct {
	number uint64
	call   comm.Call
}

func (h *history) add(number uint64, c comm.Call) {
	h[number%uint64(len(h))].number, h[number%uint64(len(h))].call = number, c
}

// text is the call of a number, "" if it is not known.
func (h *history) text(number uint64) string {
	if one := h[number%uint64(len(h))]; one.number == number && one.call.Operation != "" {
		return one.call.String()
	}
	return ""
}

// whereabouts is the answer to a question of a rank that is in the collective of a number.
func (e *engine) whereabouts(asked uint64) notice {
	n := notice{kind: answer, number: e.next, busy: e.current != nil}
	switch {
	case asked < e.next:
		n.text = e.history.text(asked)
	case n.busy:
		n.text = e.current.String()
	case e.next > 0:
		n.text = e.history.text(e.next - 1)
	}
	return n
}

// differs returns the fault of a rank that called something else at this rank's number, if one of those who have answered did.
func (e *engine) differs(p *patience) *comm.Fault {
	texts := map[int]string{e.rank: e.current.String()}
	for rank, a := range p.answers {
		if there := a.number > e.next || a.number == e.next && a.busy; there && a.text != "" {
			texts[rank] = a.text
		}
	}
	return disagreement(texts)
}

// explain is the fault when MPI has refused to go on with a collective. Mostly a rank has called something else, of which MPI only saw that
// its bytes do not fit: so the others are asked.
func (e *engine) explain(err error, p *patience) *comm.Fault {
	e.ask(p)
	for tries := 0; len(p.answers) < e.size-1 && time.Since(p.asked) < grace; tries++ {
		if f := e.listenWith(p); f != nil {
			return f
		}
		pause(tries)
	}
	if f := e.differs(p); f != nil {
		return f
	}
	return libraryFault(err)
}

// judge finds out from the answers who is to blame for a collective that has taken longer than the time limit.
func (e *engine) judge(p *patience) *comm.Fault {
	if f := e.differs(p); f != nil {
		return f
	}
	mine := e.current.String()
	var silent, late []int
	for rank := range e.size {
		a, answered := p.answers[rank]
		switch {
		case rank == e.rank:
		case !answered:
			silent = append(silent, rank)
		case a.number < e.next || a.number == e.next && !a.busy:
			late = append(late, rank)
		}
	}
	if len(silent) > 0 {
		f := comm.Late(silent, mine, p.limit)
		f.Err = comm.ErrPeer
		f.Detail += ", which does not answer" + e.peers.state(silent[0])
		return f
	}
	f := comm.Late(late, mine, p.limit)
	if len(late) > 0 {
		f.Detail += whereLate(p.answers[late[0]])
	} else {
		f.Detail += "; all ranks are in it: a slow network, or a short limit"
	}
	return f
}

// whereLate says where a rank was found that should have come.
func whereLate(a notice) string {
	switch {
	case a.busy:
		return ", which is in " + a.text
	case a.text == "":
		return ", which has called nothing"
	}
	return fmt.Sprintf(", which has called nothing since %s", a.text)
}
