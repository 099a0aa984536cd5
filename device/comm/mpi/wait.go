package mpi

import (
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
)

// pause is what a rank does between two looks at a request. At first it looks again at once, as small collectives are done within
// microseconds; then it gives the processor away, which the program's own work needs, or another rank on the same core.
func pause(tries int) {
	const spins = 64
	if tries >= spins {
		time.Sleep(20 * time.Microsecond)
	}
}

// patience is one rank's wait for the others in one collective.
type patience struct {
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
			return libraryFault(err)
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
	case p.asked.IsZero() && now.Sub(p.since) >= e.options.TimeLimit:
		p.asked, p.answers = now, make(map[int]notice)
		e.talk.sendAll(notice{kind: question})
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
			e.talk.send(n.from, e.whereabouts())
		case answer:
			if p.answers != nil {
				p.answers[n.from] = n
			}
		case ending:
			return n.fault()
		}
	}
}

// whereabouts is the answer to a question.
func (e *engine) whereabouts() notice {
	n := notice{kind: answer, number: e.next, text: e.last}
	if e.current != nil {
		n.busy, n.text = true, e.current.String()
	}
	return n
}

// judge finds out from the answers who is to blame for a collective that has taken longer than the time limit.
func (e *engine) judge(p *patience) *comm.Fault {
	mine := e.current.String()
	var silent, late []int
	for rank := range e.size {
		a, answered := p.answers[rank]
		switch {
		case rank == e.rank:
		case !answered:
			silent = append(silent, rank)
		case a.busy && a.number == e.next && a.text != mine:
			return comm.Mismatch(e.rank, mine, rank, a.text)
		case a.number < e.next || a.number == e.next && !a.busy:
			late = append(late, rank)
		}
	}
	if len(silent) > 0 {
		f := comm.Late(silent, mine, e.options.TimeLimit)
		f.Err = comm.ErrPeer
		f.Detail += ", which does not answer" + e.peers.state(silent[0])
		return f
	}
	f := comm.Late(late, mine, e.options.TimeLimit)
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
