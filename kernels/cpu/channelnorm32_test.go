package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

func TestBatchNorm_IsTheSameWithoutVectors(t *testing.T) {
	if vector.channelForms == nil {
		t.Skip("no vectors")
	}
	rng := rand.New(rand.NewPCG(45, 46))
	g := &guards{}
	watch = g.add
	defer func() { watch = nil }()
	for _, run := range []int{32, 33, 40, 71, 1024, 1025, 2100} {
		const n, channels = 3, 5
		grad, x := mixed(n*channels*run+1, rng, false)[1:], mixed(n*channels*run+1, rng, false)[1:]
		mean, rstd, weight, bias := mixed(channels, rng, false), mixed(channels, rng, false), mixed(channels, rng, false), mixed(channels, rng, false)
		full := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, n, channels, run) }
		line := func(v []float32) op.View { return viewOf(t, dtype.Float32, v, len(v)) }
		all := func() (r [5][]float32) {
			g.parts = nil
			for k := range 3 {
				r[k] = watched[float32](n * channels * run)
			}
			r[3], r[4] = watched[float32](channels), watched[float32](channels)
			launch(t, &op.Call{Op: op.ChannelNorm, Out: []op.View{full(r[0])}, In: []op.View{full(x), line(mean), line(rstd), line(weight), line(bias)},
				I: [8]int64{0, op.NormWeight | op.NormBias}})
			launch(t, &op.Call{Op: op.NormSums, Out: []op.View{line(r[3]), line(r[4])}, In: []op.View{full(grad), full(x), line(mean), line(rstd)}})
			launch(t, &op.Call{Op: op.ChannelNormGrad, Out: []op.View{full(r[1])}, I: [8]int64{0, op.NormWeight | op.NormTraining},
				In: []op.View{full(grad), full(x), line(mean), line(rstd), line(weight), line(r[3]), line(r[4])}})
			launch(t, &op.Call{Op: op.ChannelNormGrad, Out: []op.View{full(r[2])}, I: [8]int64{0, op.NormWeight},
				In: []op.View{full(grad), full(x), line(mean), line(rstd), line(weight)}})
			require.Zero(t, g.check())
			return r
		}
		fast := all()
		withoutVectors(func() {
			for k, slow := range all() {
				requireSame(t, slow, fast[k], "")
			}
		})
	}
}
