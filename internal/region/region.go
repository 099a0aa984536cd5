// Package region marks parts of a program, as training steps and modules: in the traces of package runtime/trace while one is being
// written, and for package timeline while somebody records.
package region

import (
	"context"
	"runtime/trace"
	"sync/atomic"
	"time"

	"github.com/cistern-ml/cistern/internal/timeline"
)

// On reports whether anybody wants to know. Callers ask first: the name of a region may have to be put together.
func On() bool { return trace.IsEnabled() || timeline.Active() != nil }

// Begin begins a region, which ends when end is called, by the same goroutine. Regions in it end before it does. Calling end again does
// nothing.
func Begin(category, name string) (end func()) {
	o := &open{recorder: timeline.Active()}
	if trace.IsEnabled() {
		o.trace = trace.StartRegion(context.Background(), name)
	}
	o.begin = time.Now()
	if o.recorder != nil {
		o.id = o.recorder.Begin(category, name, o.begin)
	}
	return o.end
}

// open is a region that has begun.
type open struct {
	recorder timeline.Recorder // nil if nobody recorded
	id       uint64
	trace    *trace.Region // nil if no trace was written
	begin    time.Time
	ended    atomic.Bool
}

func (o *open) end() {
	if o.ended.Swap(true) {
		return
	}
	if o.trace != nil {
		o.trace.End()
	}
	if o.recorder != nil {
		o.recorder.End(o.id, time.Since(o.begin))
	}
}
