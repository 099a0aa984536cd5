package cuda_test

import (
	"testing"

	"github.com/cistern-ml/cistern/internal/fulltests"
	"github.com/cistern-ml/cistern/kernels/kerneltest"
	"github.com/cistern-ml/cistern/kernels/op"
)

// What mixed precision is made of has cases that few others are like: more of them run here than of others in TestPTX_Conformance.
func TestPTX_OperationsOfSeveralTypes(t *testing.T) {
	d, _ := onPTX(t)
	for id, every := range map[op.ID]int{op.CastMany: 1, op.AddMixed: 1, op.LinearWeightGrad: 2, op.RowNorm: 3, op.RowNormGrad: 3, op.NormSums: 2} {
		t.Run(id.String(), func(t *testing.T) { kerneltest.TestOp(t, d, id, thinned(fulltests.Or(every, 5*every))) })
	}
}
