package replay

import (
	"sync"
	"sync/atomic"

	"github.com/cistern-ml/cistern/device"
)

// Stream is a stream of which work will be captured. What must be there before a capture, such as an optimizer's state, is made by runs before
// it on that stream.
type Stream struct {
	stream device.Stream

	mu   sync.Mutex
	home map[any]func()
}

// prepared are those streams, and streams is how many there are: what programs that capture nothing look at.
var (
	prepared sync.Map
	streams  atomic.Int32
)

// Prepare says that work of a stream will be captured, until End.
func Prepare(s device.Stream) *Stream {
	p := &Stream{stream: s, home: map[any]func(){}}
	prepared.Store(s, p)
	streams.Add(1)
	return p
}

// Prepared is the stream if work of it will be captured, or is, else nil.
func Prepared(s device.Stream) *Stream {
	if streams.Load() == 0 {
		return nil
	}
	p, _ := prepared.Load(s)
	found, _ := p.(*Stream)
	return found
}

// AtEnd has f called at End, once for each key: it brings to another stream what the key has on this one, which is closed then. On a nil Stream it
// does nothing.
func (p *Stream) AtEnd(key any, f func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.home[key] = f
}

// End says that no work of the stream will be captured any more. It is called once, when the stream has no work.
func (p *Stream) End() {
	prepared.Delete(p.stream)
	streams.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.home {
		f()
	}
}
