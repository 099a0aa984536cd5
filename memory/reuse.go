package memory

import (
	"slices"

	"github.com/cistern-ml/cistern/device"
)

// reuse has the blocks that were freed in a graph capture whose work on several streams uses them, with
// graph_capture_record_stream_reuse. Their memory can serve the same capture again as soon as the block's own stream comes
// after all that work: then the graph puts what the next holder does behind it, at every replay. Guarded by events.mu.
type reuse struct {
	kept []keptBlock
}

// keptBlock is a pending block. It waits for one thing: the moment at which its stream has passed all marks, or the end of
// the capture.
type keptBlock struct {
	block   *block
	stream  device.CaptureOrder // the block's
	capture uint64
	marks   []device.CaptureMark // where the streams that used it were when it was freed
}

// keepForCapture keeps b, which is being freed, for reuse in the capture that goes on, if the setting says so and all that uses
// the block is part of it. Otherwise it reports false: what runs outside the capture, or did before it, is not known to the
// graph. Caller holds events.mu; b is this goroutine's alone.
func (a *Caching) keepForCapture(b *block, users []use) bool {
	own, ok := b.shard.stream().(device.CaptureOrder)
	if !a.policy.Load().reuse || !ok {
		return false
	}
	k := keptBlock{block: b, stream: own, capture: own.CaptureID()}
	if k.capture == 0 {
		return false
	}
	for _, u := range users {
		s, ok := u.stream.(device.CaptureOrder)
		if !ok || u.capture != k.capture || s.CaptureID() != k.capture {
			return false
		}
		m := s.CaptureMark()
		if m == nil {
			return false
		}
		k.marks = append(k.marks, m)
	}
	b.shard.mu.Lock()
	b.events = 1
	b.shard.mu.Unlock()
	a.events.reuse.kept = append(a.events.reuse.kept, k)
	a.pendingWork.Add(1)
	return true
}

// pollReuse completes the frees of kept blocks: those of captures that are over, and of the blocks of stream s those that it has
// passed. Caller holds events.mu.
func (a *Caching) pollReuse(s device.Stream) {
	if len(a.events.reuse.kept) == 0 {
		return
	}
	a.events.reuse.kept = slices.DeleteFunc(a.events.reuse.kept, func(k keptBlock) bool {
		if k.stream.CaptureID() == k.capture && (s == nil || s.ID() != k.stream.ID() || !k.passed()) {
			return false
		}
		a.arrive(k.block)
		return true
	})
}

func (k *keptBlock) passed() bool {
	return !slices.ContainsFunc(k.marks, func(m device.CaptureMark) bool { return !k.stream.CapturePassed(m) })
}
