package nccl

import (
	"fmt"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
)

// grace is how long answers may take.
const grace = time.Second

// investigate finds out who is to blame for a call that has waited for the limit. Rank 0 asks all; another rank tells it, and is told what
// came of it. It returns nil if the group has ended meanwhile.
func (t *talk) investigate(number uint64, text string, limit time.Duration) *comm.Fault {
	if t.rank == 0 {
		return t.find(number, 0, text, limit.String())
	}
	t.links[0].send(notice{Kind: late, Number: number, Call: text, Text: limit.String()})
	select {
	case <-t.verdict:
		return nil
	case <-time.After(3 * grace):
	}
	return &comm.Fault{Peer: 0, Err: comm.ErrPeer, Detail: fmt.Sprintf("%s has waited for %v, and it does not answer (%s)", text, limit, t.links[0].who)}
}

// find asks all ranks where they are with a call that one of them waits in, and returns the fault; nil if the group has ended meanwhile.
func (t *talk) find(number uint64, waiting int, text, limit string) *comm.Fault {
	t.asking.Lock()
	defer t.asking.Unlock()
	select {
	case <-t.verdict:
		return nil
	default:
	}
	answers := t.ask(number)
	waited := fmt.Sprintf("%s has waited for %s", text, limit)
	var absent, elsewhere []int
	for rank, a := range answers {
		switch {
		case a == nil:
			return &comm.Fault{Peer: rank, Err: comm.ErrPeer, Detail: fmt.Sprintf("%s, and it does not answer (%s)", waited, t.links[rank].who)}
		case !a.Called:
			absent = append(absent, rank)
		case !a.Begun:
			elsewhere = append(elsewhere, rank)
		}
	}
	calls := make([]check, 0, len(answers))
	for rank, a := range answers {
		if a.Called && a.Call != "" {
			calls = append(calls, check{rank, a.Call})
		}
	}
	if f := differing(calls, waiting); f != nil {
		return f
	}
	switch {
	case len(absent) > 0:
		return &comm.Fault{Peer: absent[0], Err: comm.ErrTimeout, Detail: fmt.Sprintf("%s for %s, by which it was not called", waited, comm.RankNames(absent))}
	case len(elsewhere) > 0:
		return &comm.Fault{Peer: elsewhere[0], Err: comm.ErrTimeout, Detail: fmt.Sprintf("%s for %s, where no stream has come to it", waited, comm.RankNames(elsewhere))}
	}
	return &comm.Fault{Peer: -1, Err: comm.ErrTimeout, Detail: waited + ", and all ranks are in it"}
}

// ask puts a question to all ranks, and returns the answers by rank: nil of those who do not answer in time.
func (t *talk) ask(number uint64) []*notice {
	for len(t.answers) > 0 { // late ones, to an earlier question
		<-t.answers
	}
	own := notice{}
	own.Called, own.Begun, own.Call = t.where(number)
	list := make([]*notice, t.size)
	list[0] = &own
	for _, l := range t.links {
		if l != nil {
			go l.send(notice{Kind: question, Number: number}) // one that reads nothing does not keep the others waiting
		}
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for missing := t.size - 1; missing > 0; {
		select {
		case a := <-t.answers:
			if a.Number == number && list[a.rank] == nil {
				list[a.rank] = &a.notice
				missing--
			}
		case <-timer.C:
			return list
		}
	}
	return list
}

// compare notes a call, and ends the group if it is not that of the others (rank 0), or lets all make it. Numbers come once from each rank.
func (t *talk) compare(number uint64, rank int, text string) {
	t.mu.Lock()
	list := append(t.calls[number], check{rank, text})
	t.calls[number] = list
	// Of more than two ranks the majority is waited for, to know who is to blame.
	if len(list) == t.size {
		delete(t.calls, number)
	}
	t.mu.Unlock()
	if len(list) < min(3, t.size) {
		return
	}
	if f := differing(list, list[0].rank); f != nil {
		t.conclude(f)
		return
	}
	if len(list) == t.size {
		for _, l := range t.links[1:] {
			l.send(notice{Kind: agreed, Number: number})
		}
		t.agreed <- struct{}{}
	}
}

// differing is the fault of calls that are not all the same: to blame is who is in the minority, or if there is none, who is not waiting.
func differing(calls []check, waiting int) *comm.Fault {
	count := map[string]int{}
	for _, c := range calls {
		count[c.text]++
	}
	if len(count) < 2 {
		return nil
	}
	usual := calls[0]
	for _, c := range calls {
		if count[c.text] > count[usual.text] || count[c.text] == count[usual.text] && c.rank == waiting {
			usual = c
		}
	}
	for _, c := range calls {
		if c.text != usual.text {
			return comm.Mismatch(usual.rank, usual.text, c.rank, c.text)
		}
	}
	return nil
}
