package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPair reports ns/pair, the time of an allocation and its free per thread, for every allocator and workload. The
// recorded programs are those of the folder CISTERN_TRACES if that is set, else a small one stands for both.
func BenchmarkPair(b *testing.B) {
	dir := os.Getenv("CISTERN_TRACES")
	if dir == "" {
		dir = traces(b, "mlp_adam")
	}
	workloads, err := allWorkloads(dir, 65536)
	require.NoError(b, err)
	for _, w := range workloads {
		for _, s := range subjects {
			name := w.name + "/" + s.name
			if w.threads > 1 {
				name = "two threads/" + name
			}
			b.Run(name, func(b *testing.B) { benchmark(b, w, s) })
		}
	}
}

func benchmark(b *testing.B, w workload, s subject) {
	i, err := s.open(w)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	_, err = i.run(b.N) // at once, so that the start of the threads does not count
	require.NoError(b, err)
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(w.pairs), "ns/pair")
	require.NoError(b, i.close())
}
