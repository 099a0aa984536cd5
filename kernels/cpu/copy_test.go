package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestCopy_MovesLinesOfAllLengthsAndNothingBeside(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for _, n := range []int{1, 33, copyPiece / 4, copyPiece/4 + 1, 2*copyPiece/4 + 7, cachedCopy / 4, cachedCopy/4 + 9} {
		src, dst := make([]float32, n), make([]float32, n+2)
		for i := range src {
			src[i] = rng.Float32()
		}
		launch(t, &op.Call{Op: op.Copy, Out: []op.View{viewOf(t, dtype.Float32, dst[1:n+1], n)}, In: []op.View{viewOf(t, dtype.Float32, src, n)}})
		requireSame(t, src, dst[1:n+1], fmt.Sprint(n))
		require.Equal(t, [2]float32{}, [2]float32{dst[0], dst[n+1]}, n)
	}
}
