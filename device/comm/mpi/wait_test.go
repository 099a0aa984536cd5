package mpi

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cistern-ml/cistern/device/comm"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/device/internal/osmem"
	"github.com/stretchr/testify/require"
)

func TestDisagreement_BlamesTheOddOne(t *testing.T) {
	for _, one := range []struct {
		texts       map[int]string
		peer, other int
	}{
		{map[int]string{0: "a", 1: "b"}, 1, 0},
		{map[int]string{0: "b", 1: "a", 2: "a"}, 0, 1},
		{map[int]string{0: "a", 1: "a", 2: "b", 3: "c"}, 2, 0},
		{map[int]string{0: "b", 1: "a", 2: "a", 3: "b"}, 1, 0},
	} {
		f := disagreement(one.texts)
		require.NotNil(t, f, one.texts)
		require.ErrorIs(t, f.Err, comm.ErrMismatch)
		require.Equal(t, []int{one.peer, one.other}, []int{f.Peer, f.Other}, one.texts)
	}
	require.Nil(t, disagreement(map[int]string{0: "a", 2: "a"}))
	require.Nil(t, disagreement(nil))
}

func TestNotice_ArrivesAsItWasWritten(t *testing.T) {
	p, err := osmem.Alloc(slabBytes)
	require.NoError(t, err)
	for _, n := range []notice{
		{kind: question, from: 3, number: 1 << 40},
		{kind: answer, from: 1023, number: 7, busy: true, text: "AllReduce(sum, 8 float32)"},
		{kind: ending, peer: -1, other: 5, reason: 3, text: "why"},
	} {
		slot(p).write(n)
		require.Equal(t, n, slot(p).read())
	}
	slot(p).write(notice{text: strings.Repeat("x", 2*textBytes)})
	require.Len(t, slot(p).read().text, textBytes, "long texts are cut")
	require.NoError(t, osmem.Free(p, slabBytes))
}

// judged is the verdict of rank 0 of 4, which is in its call number 5, from the answers of the others.
func judged(answers map[int]notice) *comm.Fault {
	e := &engine{rank: 0, size: 4, next: 5, current: &comm.Call{Operation: "AllReduce", Op: comm.Sum, Src: comm.Buffer{Count: 2, Type: dtype.Float32}}}
	return e.judge(&patience{limit: time.Second, number: e.next, answers: answers})
}

// Rank 1 has given rank 2 too little at number 3, where rank 2 waits; the others have gone on.
func TestJudge_AsksAboutTheCollectiveInWhichTheHindmostWaits(t *testing.T) {
	all := comm.Call{Operation: "AllReduce", Op: comm.Sum, Src: comm.Buffer{Count: 2, Type: dtype.Float32}}
	e := &engine{rank: 0, size: 4, next: 5, current: &all}
	for number := range uint64(6) {
		e.history.add(number, all)
	}
	here, there := notice{number: 5, busy: true, text: all.String()}, notice{number: 3, busy: true, text: all.String()}
	p := &patience{limit: time.Second, number: e.next, answers: map[int]notice{1: here, 2: there, 3: here}}
	e.talk.size = 0 // nobody is reached here
	require.Nil(t, e.judge(p))
	require.Equal(t, uint64(3), p.number)
	less := notice{number: 5, busy: true, text: "AllReduce(sum, 1 float32)"}
	p.answers = map[int]notice{1: less, 2: there, 3: here}
	f := e.judge(p)
	require.ErrorIs(t, f.Err, comm.ErrMismatch)
	require.Equal(t, 1, f.Peer)
}

func TestJudge_FindsWhoIsToBlame(t *testing.T) {
	here := notice{number: 5, busy: true, text: "AllReduce(sum, 2 float32)"}
	past := notice{number: 6, text: "AllReduce(sum, 2 float32)"}
	for name, one := range map[string]struct {
		answers map[int]notice
		peer    int
		err     error
		text    string
	}{
		"silent":    {map[int]notice{1: here, 3: here}, 2, comm.ErrPeer, "for rank 2, which does not answer"},
		"two":       {map[int]notice{2: here}, 1, comm.ErrPeer, "for ranks 1, 3, which does not answer"},
		"late":      {map[int]notice{1: here, 2: here, 3: {number: 5, text: "Barrier()"}}, 3, comm.ErrTimeout, "nothing since Barrier()"},
		"unknown":   {map[int]notice{1: here, 2: {number: 4, busy: true, text: "Broadcast(1 int64, root 0)"}, 3: here}, 2, comm.ErrTimeout, "which is in Broadcast"},
		"beginning": {map[int]notice{1: {}, 2: here, 3: here}, 1, comm.ErrTimeout, "which has called nothing"},
		"other":     {map[int]notice{1: here, 2: {number: 5, busy: true, text: "Barrier()"}, 3: here}, 2, comm.ErrMismatch, "rank 2 Barrier()"},
		"was other": {map[int]notice{1: past, 2: {number: 9, text: "Barrier()"}, 3: here}, 2, comm.ErrMismatch, "rank 2 Barrier()"},
		"slow":      {map[int]notice{1: here, 2: past, 3: here}, -1, comm.ErrTimeout, "all ranks are in it"},
	} {
		f := judged(one.answers)
		require.ErrorIs(t, f.Err, one.err, name)
		require.Equal(t, one.peer, f.Peer, name)
		require.Contains(t, f.Detail, one.text, name)
	}
}

func TestHistory_KnowsTheLastCalls(t *testing.T) {
	var h history
	require.Empty(t, h.text(0))
	for number := range uint64(100) {
		h.add(number, comm.Call{Operation: "Broadcast", Root: int(number), Src: comm.Buffer{Type: dtype.Int64}})
	}
	require.Equal(t, "Broadcast(0 int64, root 99)", h.text(99))
	require.Equal(t, "Broadcast(0 int64, root 36)", h.text(36))
	require.Empty(t, h.text(35), "too long ago")
	require.Empty(t, h.text(100), "not yet")
}

func TestProcessState_OfThisOneAndOfNone(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("SKIPPED: the system has no /proc")
	}
	state, started, ok := processState(os.Getpid())
	require.True(t, ok)
	require.Contains(t, "RS", string(state))
	require.NotZero(t, started)
	_, _, ok = processState(1 << 30)
	require.False(t, ok)
	p := readPeer(func() []byte { b := make([]byte, peerBytes); self().write(b); return b }())
	require.Equal(t, self(), p)
}
