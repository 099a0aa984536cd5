package memprof

import (
	"expvar"
	"sync"

	"github.com/cistern-ml/cistern/memory"
)

var publish sync.Once

// Publish publishes the statistics of all allocators as the expvar variable "cistern_memory": an object with memory.Stats for
// each device. Calling it again does nothing.
func Publish() {
	publish.Do(func() { expvar.Publish("cistern_memory", expvar.Func(allStats)) })
}

func allStats() any {
	stats := map[string]memory.Stats{}
	for _, a := range memory.Allocators() {
		stats[a.Device().String()] = a.Stats()
	}
	return stats
}
