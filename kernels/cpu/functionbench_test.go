package cpu

import (
	"testing"
	"time"
)

// BenchmarkFunctions says how long an element takes, from the second-level cache: of all times the best, which no other program disturbed.
func BenchmarkFunctions(b *testing.B) {
	scalars := &functionScalars{narrow: [4]float32{0.75, 0, 0, 20}, wide: [4]float64{2.5}}
	for f := range functionID(functionCount) {
		b.Run(functionNames[f], func(b *testing.B) {
			const n = 16 << 10
			x, y, z, dst := normalSamples(n), normalSamples(n), normalSamples(n), make([]float32, n)
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				apply(f, dst, x, y, z, scalars)
				best = min(best, time.Since(start))
			}
			b.ReportMetric(float64(best.Nanoseconds())/n, "ns/element")
		})
	}
}

// normalSamples are numbers between -3 and 3.
func normalSamples(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i*7919%n)/float32(n)*6 - 3
	}
	return v
}
