package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/tensor"
)

func init() {
	ctc := func(inputs, lengths []int, c autograd.CTC, r autograd.Reduction) func(v vars) variable {
		return func(v vars) variable { return v[0].LogSoftmax(-1).CTCLoss(v[1], inputs, lengths, c, r) }
	}
	const none = autograd.NoReduction
	six, lengths := []int{6, 6, 6}, []int{3, 2, 1}
	functions := map[string]func(v vars) variable{
		"ctc mean": ctc(six, lengths, autograd.CTC{}, autograd.MeanReduction), "ctc none": ctc(six, lengths, autograd.CTC{}, none),
		"ctc sum": func(v vars) variable {
			all := v[0].Dim(0)
			return ctc([]int{all, all, all}, lengths, autograd.CTC{}, autograd.SumReduction)(v)
		},
		"ctc lengths": ctc([]int{6, 4, 3}, []int{3, 0, 1}, autograd.CTC{}, none), "ctc joined": ctc(six, lengths, autograd.CTC{}, none),
		"ctc blank": ctc(six, lengths, autograd.CTC{Blank: 3}, none), "ctc one": ctc([]int{5}, []int{2}, autograd.CTC{}, none),
		"ctc zero":     ctc([]int{6, 3, 2}, []int{3, 3, 3}, autograd.CTC{ZeroInfinity: true}, autograd.MeanReduction),
		"ctc infinite": ctc([]int{6, 3, 2}, []int{3, 3, 3}, autograd.CTC{}, none),
		"ctc empty":    ctc([]int{1, 1}, []int{0, 0}, autograd.CTC{}, autograd.MeanReduction),
	}
	composed(functions, gradientCase{op: "ctc_loss", f: func(v vars) variable {
		return v[0].CTCLoss(v[1], []int{4, 3}, []int{2, 1}, autograd.CTC{}, none)
	}, inputs: func(r *rig) []*tensor.Tensor {
		return []*tensor.Tensor{r.random(1, 4, 2, 3), r.ints([]int64{1, 1, 2, 0}, 2, 2)}
	}})
}

func TestCTCLoss_RefusesLengthsThatDoNotFit(t *testing.T) {
	r := onHost(t)
	for name, c := range map[string]struct {
		inputs, lengths []int
		blank           int
	}{
		"too few": {[]int{4}, []int{2, 1}, 0}, "too many steps": {[]int{5, 4}, []int{2, 1}, 0}, "no steps": {[]int{0, 4}, []int{2, 1}, 0},
		"too many labels": {[]int{4, 4}, []int{3, 1}, 0}, "negative": {[]int{4, 4}, []int{-1, 1}, 0}, "blank": {[]int{4, 4}, []int{2, 1}, 3},
	} {
		g := r.graph()
		x, y := g.Zeros(tensor.Float32, 4, 2, 3), autograd.FromSlice(g, []int64{1, 1, 2, 0}, 2, 2)
		x.CTCLoss(y, c.inputs, c.lengths, autograd.CTC{Blank: c.blank}, autograd.MeanReduction)
		var op *autograd.OpError
		require.ErrorAs(t, g.Err(), &op, name)
		require.Equal(t, "ctc_loss", op.Op)
		g.Release()
		require.Zero(t, r.allocated())
	}
}
