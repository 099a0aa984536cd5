package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that a limit just serves is served with a plan too: what the arena keeps goes, and for what the caching allocator serves then no more counts than the pages that it takes.
func TestPlan_PagesCountUnderALimit(t *testing.T) {
	for _, kinds := range [][][]uint64{
		{{30290408, 37699552}},
		{{30290408, 37699552}, {39511585}},
		{{30290408, 37699552}, {51206074}, {19789850, 24661073}},
	} {
		r := newKindsProgram(t, compacting102, true)
		r.alloc(8536*kib+512, 0)
		r.alloc(3774*kib, 0)
		r.a.SetMemoryLimit(80*mib - 64*kib)
		for i := range 30 {
			require.NoError(t, r.plan.Step())
			var live []Block
			for _, n := range kinds[i%len(kinds)] {
				live = append(live, r.alloc(n, 0))
			}
			require.LessOrEqual(t, r.reserved(), uint64(80*mib-64*kib))
			r.free(live...)
		}
	}
}
