package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// loop is a training as many write it: the variables of its loop hold the batch, the output and the loss until the next step has others.
type loop struct {
	*turns
	weights, grads     []Block
	batch, output, one Block
}

func newLoop(t *testing.T) *loop {
	l := &loop{turns: newTurns(t)}
	var gone []Block
	for i := range 6 {
		gone = append(gone, l.take(500*kib))
		l.weights = append(l.weights, l.take(uint64(i+2)*mib+300*kib))
	}
	l.free(gone...) // which leaves what a plan borrows
	return l
}

// take is alloc, and looks how much is reserved.
func (l *loop) take(bytes uint64) Block {
	b := l.alloc(bytes, 0)
	l.most = max(l.most, l.reserved())
	return b
}

// set puts a new block in the place of the one that a variable holds.
func (l *loop) set(v *Block, bytes uint64) {
	b := l.take(bytes)
	if *v != (Block{}) {
		l.free(*v)
	}
	*v = b
}

func (l *loop) step() {
	require.NoError(l.t, l.plan.Step())
	l.set(&l.batch, 5*mib)
	var activations []Block
	for i := range l.weights {
		activations = append(activations, l.take(12*mib-uint64(i)*700*kib))
		l.free(l.take(2*mib + uint64(i)*kib))
	}
	l.set(&l.output, 3*mib+700*kib)
	l.set(&l.one, 4)
	first := l.grads == nil
	for i := len(l.weights) - 1; i >= 0; i-- {
		change, grad := l.take(9*mib-uint64(i)*600*kib), l.take(l.weights[i].Size())
		if first {
			l.grads = append(l.grads, grad)
		} else {
			l.free(grad) // it has been added
		}
		l.free(activations[i], change)
	}
}

// Of blocks that were in use when the first step ended it is not known how long those of the next one live; and one that stays for a step each time, as the batch does, does not take back what
// is borrowed for the others.
func TestPlan_BlocksThatVariablesHoldLeaveTheOthersTheirPlaces(t *testing.T) {
	l := newLoop(t)
	l.step()
	l.step()
	before := l.plan.Stats()
	for range 8 {
		l.step()
	}
	now := l.plan.Stats()
	require.Less(t, now.Unknown-before.Unknown, uint64(3*27), "requests of more than two steps")
	require.Greater(t, now.Served-before.Served, uint64(8*27/2))
	require.Zero(t, now.Refused-before.Refused)
	l.free(append(append(l.weights, l.grads...), l.batch, l.output, l.one)...)
	require.NoError(t, l.plan.Close())
}

// A step that goes another way has what its plan does not use, before more is reserved than compaction allows.
func TestPlan_GivesUpItsPlacesRatherThanMemory(t *testing.T) {
	r := newTurns(t)
	usual := []turnOp{{60, 0, 3}, {62, 0, 3}, {3, 0, 5}, {55, 0, 5}, {57, 0, 5}} // the small one lies above the others
	for range 6 {
		r.step(usual)
	}
	before := r.plan.Stats()
	r.step(usual)
	require.Equal(t, uint64(len(usual)), r.plan.Stats().Served-before.Served)
	r.most = 0
	r.step([]turnOp{{60, 0, 3}, {62, 0, 3}, {3, 0, 4}, {124, 0, 4}})
	r.requireBound("another way")
	for range 8 {
		r.step(usual)
	}
	before = r.plan.Stats()
	r.step(usual)
	require.Equal(t, uint64(len(usual)), r.plan.Stats().Served-before.Served, "it has places again")
	require.NoError(t, r.plan.Close())
	r.empty()
	require.Zero(t, r.reserved())
}
