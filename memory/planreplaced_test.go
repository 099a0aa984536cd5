package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Parameters that new blocks replace every 30 steps, as those of a checkpoint that is read back: such a step is a program like others once it has been there twice. The new
// blocks stay, so that the plan has no place for them, and come before the step uses what the plan has borrowed: they get that, rather than new memory from the driver.
func TestPlan_OfParametersThatAreReplaced(t *testing.T) {
	for _, conf := range []string{"", "expandable_segments:True"} {
		var sum [2]uint64
		for seed := range uint64(4) {
			for with := range sum {
				r := &turns{rig: newRig(t, 8192*mib, conf)}
				if with == 1 {
					var err error
					r.plan, err = r.a.NewPlan(PlanWait(longWait))
					require.NoError(t, err)
				}
				r.replaceParameters(rand.New(rand.NewPCG(seed, 1)))
				sum[with] += r.most
				require.NoError(t, r.plan.Close())
			}
		}
		require.LessOrEqual(t, float64(sum[1]), 1.1*float64(sum[0]), "%q", conf)
	}
}

func (r *turns) replaceParameters(rng *rand.Rand) {
	var parameters, activations []Block
	var sizes []uint64
	for range 8 {
		sizes = append(sizes, 64*kib+rng.Uint64N(2*mib))
	}
	for _, n := range sizes {
		parameters = append(parameters, r.alloc(n, 0))
	}
	for i := range 160 {
		if r.plan != nil {
			require.NoError(r.t, r.plan.Step())
		}
		for k := range parameters {
			if i%30 == 29 {
				b := r.alloc(sizes[k], 0)
				r.free(parameters[k])
				parameters[k] = b
			}
		}
		for _, n := range sizes {
			activations = append(activations, r.alloc(n/2+256*kib, 0), r.alloc(n, 0))
		}
		if i == 95 { // the third time, from which on they come as they were learned, has been
			r.most = 0
		}
		r.most = max(r.most, r.reserved())
		r.free(activations...)
		activations = activations[:0]
	}
}
