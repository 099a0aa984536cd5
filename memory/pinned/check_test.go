package pinned

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPinnedCheck_FindsWhatIsBroken(t *testing.T) {
	for name, breakIt := range map[string]func(r *rig, held, pending, cached *block) (fix func()){
		"allocated_bytes is": func(r *rig, _, _, _ *block) func() {
			r.p.books.stats.AllocatedBytes.Current++
			return func() { r.p.books.stats.AllocatedBytes.Current-- }
		},
		"active_bytes is": func(r *rig, _, _, _ *block) func() {
			r.p.bytes.now.Add(1)
			return func() { r.p.bytes.now.Add(-1) }
		},
		"a peak": func(r *rig, _, _, _ *block) func() {
			peak := r.p.requests.peak.Swap(1)
			return func() { r.p.requests.peak.Store(peak) }
		},
		"waits for 2": func(_ *rig, _, pending, _ *block) func() {
			pending.waits++
			return func() { pending.waits-- }
		},
		"it is not pending": func(_ *rig, _, pending, _ *block) func() {
			pending.state = stateAllocated
			return func() { pending.state = statePending }
		},
		"twice": func(_ *rig, _, _, cached *block) func() {
			k := cached.bucket
			k.free = append(k.free, cached)
			return func() { k.free = k.free[:1] }
		},
		"state 0, free true": func(_ *rig, _, _, cached *block) func() {
			cached.state = stateAllocated
			return func() { cached.state = stateCached }
		},
		"not on its books": func(_ *rig, _, _, cached *block) func() {
			k := cached.bucket
			all := k.all
			k.all = nil
			return func() { k.all = all }
		},
		"at place": func(_ *rig, held, _, _ *block) func() {
			held.place++
			return func() { held.place-- }
		},
		"1 users": func(r *rig, _, _, cached *block) func() {
			cached.addUser(r.stream(1))
			return func() { cached.users = nil }
		},
		"but no more": func(_ *rig, held, _, _ *block) func() {
			held.state = stateSpare
			return func() { held.state = stateAllocated }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "")
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
