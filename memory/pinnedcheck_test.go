package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPinnedCheck_FindsWhatIsBroken(t *testing.T) {
	for name, breakIt := range map[string]func(r *pinnedRig, held, pending, cached *pinnedBlock) (fix func()){
		"allocated_bytes is": func(r *pinnedRig, _, _, _ *pinnedBlock) func() {
			r.p.books.stats.AllocatedBytes.Current++
			return func() { r.p.books.stats.AllocatedBytes.Current-- }
		},
		"active_bytes is": func(r *pinnedRig, _, _, _ *pinnedBlock) func() {
			r.p.bytes.now.Add(1)
			return func() { r.p.bytes.now.Add(-1) }
		},
		"a peak": func(r *pinnedRig, _, _, _ *pinnedBlock) func() {
			peak := r.p.requests.peak.Swap(1)
			return func() { r.p.requests.peak.Store(peak) }
		},
		"waits for 2": func(_ *pinnedRig, _, pending, _ *pinnedBlock) func() {
			pending.waits++
			return func() { pending.waits-- }
		},
		"it is not pending": func(_ *pinnedRig, _, pending, _ *pinnedBlock) func() {
			pending.state = pinnedAllocated
			return func() { pending.state = pinnedPending }
		},
		"twice": func(_ *pinnedRig, _, _, cached *pinnedBlock) func() {
			k := cached.bucket
			k.free = append(k.free, cached)
			return func() { k.free = k.free[:1] }
		},
		"state 0, free true": func(_ *pinnedRig, _, _, cached *pinnedBlock) func() {
			cached.state = pinnedAllocated
			return func() { cached.state = pinnedCached }
		},
		"not on its books": func(_ *pinnedRig, _, _, cached *pinnedBlock) func() {
			k := cached.bucket
			all := k.all
			k.all = nil
			return func() { k.all = all }
		},
		"at place": func(_ *pinnedRig, held, _, _ *pinnedBlock) func() {
			held.place++
			return func() { held.place-- }
		},
		"1 users": func(r *pinnedRig, _, _, cached *pinnedBlock) func() {
			cached.addUser(r.stream(1))
			return func() { cached.users = nil }
		},
		"but no more": func(_ *pinnedRig, held, _, _ *pinnedBlock) func() {
			held.state = pinnedSpare
			return func() { held.state = pinnedAllocated }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPinnedRig(t, "")
			held, pending, other, cached := r.alloc(1), r.alloc(64), r.alloc(64), r.alloc(4096)
			r.record(pending, 1)
			r.record(other, 1)
			r.free(pending, other, cached)
			fix := breakIt(r, held.b, pending.b, cached.b)
			require.ErrorContains(t, r.p.check(), name)
			fix()
			r.check()
		})
	}
}
