package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/sim"
)

// A step of a thousand requests, of which some are alive at once, with and without a plan: what a pair of Alloc and Free takes.
func BenchmarkPlan_Pair(b *testing.B) {
	for _, planned := range []bool{false, true} {
		b.Run(map[bool]string{false: "cached", true: "planned"}[planned], func(b *testing.B) {
			dev := sim.New(16 * device.GiB)
			a, err := New(dev, Config{})
			require.NoError(b, err)
			defer a.Close()
			var plan *Plan
			if planned {
				plan, err = a.NewPlan()
				require.NoError(b, err)
			}
			const requests, alive = 1000, 30
			var live [alive]Block
			var sizes [requests]uint64
			for i := range sizes {
				sizes[i] = uint64(1+i*7919%64) * 96 * 1024
			}
			s := dev.DefaultStream()
			step := func() {
				if planned {
					require.NoError(b, plan.Step())
				}
				k := 0
				for _, size := range sizes {
					_ = a.Free(live[k]) // nothing at first
					live[k], _ = a.Alloc(size, s)
					if k++; k == alive {
						k = 0
					}
				}
				for i, x := range live {
					_ = a.Free(x)
					live[i] = Block{}
				}
			}
			for range 4 {
				step()
			}
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/pair")
			if planned {
				st := plan.Stats()
				b.ReportMetric(float64(st.Served)/float64(st.Steps)/requests, "served")
			}
		})
	}
}
