// Package region marks parts of a program, as training steps and modules: in the traces of package runtime/trace while one is being
// written, and for package timeline while somebody records.
package region

import (
	"context"
	"runtime/trace"
	"time"

	"github.com/cistern-ml/cistern/internal/timeline"
)

// On reports whether anybody wants to know. Callers ask first: the name of a region may have to be put together.
func On() bool { return trace.IsEnabled() || timeline.Active() != nil }

// Begin begins a region, which ends when end is called, by the same goroutine. Regions in it end before it does.
func Begin(category, name string) (end func()) {
	r := timeline.Active()
	var t *trace.Region
	if trace.IsEnabled() {
		t = trace.StartRegion(context.Background(), name)
	}
	begin := time.Now()
	return func() {
		if t != nil {
			t.End()
		}
		if r != nil {
			r.Region(category, name, begin, time.Since(begin))
		}
	}
}
