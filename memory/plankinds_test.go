package memory

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kindsProgram takes steps of kinds that are written down: "+3=64 -3 +4=8@1" asks for block 3, of 64 MiB, on stream 0, frees it, and asks for block 4 on stream 1.
type kindsProgram struct {
	*rig
	plan *Plan
	live map[int]Block
}

func newKindsProgram(t testing.TB, config string, planned bool) *kindsProgram {
	r := &kindsProgram{rig: newRig(t, 4096*mib, config), live: map[int]Block{}}
	if planned {
		var err error
		r.plan, err = r.a.NewPlan(PlanWait(longWait))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.plan.Close()) })
	}
	return r
}

// step takes a step of a kind. Blocks that are not there are not freed: it is of another step whether they are.
func (r *kindsProgram) step(kind string) {
	if r.plan != nil {
		require.NoError(r.t, r.plan.Step())
	}
	r.within(kind)
}

func (r *kindsProgram) within(kind string) {
	for _, word := range strings.Fields(kind) {
		var name, size, stream int
		if n, _ := fmt.Sscanf(word, "+%d=%d@%d", &name, &size, &stream); n >= 2 {
			b, err := r.a.Alloc(uint64(size)*mib, r.stream(stream)) // without a check of all that there is, which takes long
			require.NoError(r.t, err)
			r.live[name] = b
			continue
		}
		_, err := fmt.Sscanf(word, "-%d", &name)
		require.NoError(r.t, err)
		if b, ok := r.live[name]; ok {
			require.NoError(r.t, r.a.Free(b))
			delete(r.live, name)
		}
	}
}

// calls is how many calls of the driver for memory there were.
func (r *kindsProgram) calls() int64 { s := r.a.Stats(); return s.NumDeviceAlloc + s.NumDeviceFree }
