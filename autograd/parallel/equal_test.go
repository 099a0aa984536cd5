package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd/parallel"
)

// n ranks train as one process with n times the batch does.
func TestData_TrainsAsOneProcessWithTheWholeBatch(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		for stage := range 4 {
			for _, accumulate := range []int{1, 2} {
				t.Run(fmt.Sprintf("%d ranks, ZeRO %d, %d parts", n, stage, accumulate), func(t *testing.T) {
					c := training{options: []parallel.Option{parallel.ZeRO(stage), parallel.BucketBytes(200, 1000)}, accumulate: accumulate, seed: 3}
					want, have := single(t, c), trained(t, n, c)
					requireClose(t, want, have, 2e-4)
					require.Less(t, have.losses[len(have.losses)-1], have.losses[0], "it must have trained")
				})
			}
		}
	}
}
