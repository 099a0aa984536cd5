package driver

import (
	"math"
	"sync/atomic"
)

// Gate lets batches in until it is shut, and tells when the last one is out. The zero Gate must not be used: see NewGate. It costs
// a batch two atomic additions.
type Gate struct {
	inside atomic.Int64  // batches; shut is added when the gate is
	empty  chan struct{} // gets something when the last batch leaves a shut gate
}

const shut = math.MinInt64 / 2

// NewGate returns an open gate.
func NewGate() *Gate { return &Gate{empty: make(chan struct{}, 1)} }

// Batch is Library.Batch for calls that must not meet the end of what they use. It returns nil if the gate is shut. The batch
// is inside until its Release; a goroutine may have several.
func (g *Gate) Batch(l *Library) *Batch {
	if g.inside.Add(1) < 0 {
		g.leave()
		return nil
	}
	b := l.Batch()
	b.gate = g
	return b
}

func (g *Gate) leave() {
	if g.inside.Add(-1) == shut {
		g.tell()
	}
}

func (g *Gate) tell() {
	select {
	case g.empty <- struct{}{}:
	default: // it was told already: a batch that is refused comes and leaves too
	}
}

// Shut refuses batches from now on. It is called once.
func (g *Gate) Shut() {
	if g.inside.Add(shut) == shut {
		g.tell()
	}
}

// Wait waits until no batch is inside. It is called once, after Shut.
func (g *Gate) Wait() { <-g.empty }
