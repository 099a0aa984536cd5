package kerneltest

import (
	"iter"

	"github.com/cistern-ml/cistern/device/dtype"
)

// castMany are the cases of CastMany: tensors of the sizes that optimizers are tested with, and more of them than one table has.
func (m *maker) castMany() iter.Seq[*testCase] {
	many := make([][]int, 150)
	for i := range many {
		many[i] = []int{i % 5 * 3}
	}
	return list(func(emit func(*testCase)) {
		for _, shapes := range append(stepShapes[:len(stepShapes):len(stepShapes)], many) {
			for range 3 { // aligned and not
				if !m.due() {
					continue
				}
				c := m.newCase()
				c.call.I[0] = int64(len(shapes))
				for _, shape := range shapes {
					from := newTensor(dtype.Float32, contiguous, shape...)
					from.fill(m.wild(dtype.Float32))
					want := make([]result, len(from.values))
					for i, v := range from.values {
						want[i] = castTo(dtype.Float32, m.d, v)
					}
					c.in, c.out, c.want = append(c.in, from), append(c.out, newTensor(m.d, contiguous, shape...)), append(c.want, want)
				}
				c.ulps = 0
				emit(c)
			}
		}
	})
}
