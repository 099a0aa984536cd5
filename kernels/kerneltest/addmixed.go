package kerneltest

import (
	"iter"

	"github.com/cistern-ml/cistern/device/dtype"
)

// mixedSums are the cases of AddMixed: of sizes around those of vectors and blocks, into memory of its own and into the operand in float32.
func (m *maker) mixedSums() iter.Seq[*testCase] {
	return list(func(emit func(*testCase)) {
		for _, n := range []int{0, 1, 7, 8, 9, 255, 2048, 2049, 40_000} {
			for alias := range 3 {
				if !m.due() {
					continue
				}
				c := m.newCase()
				c.alias = alias / 2 * 2
				a, b := newTensor(m.d, contiguous, n), newTensor(dtype.Float32, contiguous, n)
				a.fill(m.tame(m.d))
				b.fill(m.tame(dtype.Float32))
				want := make([]result, n)
				for i := range want {
					want[i] = exact(round(dtype.Float32, a.values[i].f+b.values[i].f))
				}
				c.in, c.out, c.want = []*tensor{a, b}, []*tensor{newTensor(dtype.Float32, contiguous, n)}, [][]result{want}
				emit(c)
			}
		}
	})
}
