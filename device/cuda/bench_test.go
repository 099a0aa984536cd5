package cuda_test

import (
	"testing"

	"github.com/cistern-ml/cistern/device/cuda/cudatest"
)

// BenchmarkStream_RecordAndDone has the cost of two crossings, and the emulated driver's own time.
func BenchmarkStream_RecordAndDone(b *testing.B) {
	r := cudatest.New(b, 1)
	s, e := r.Stream(r.Devices[0]), r.Event(r.Devices[0])
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Record(e); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Done(); err != nil {
			b.Fatal(err)
		}
	}
}
