package cuda

import (
	"slices"

	"github.com/cistern-ml/cistern/kernels/op"
)

var rows = slices.Concat(
	moveRows(),
	castManyRows(),
	addMixedRows(),
	randomRows(),
	elementwiseRows(),
	reduceRows(),
	softmaxRows(),
	scanRows(),
	sortRows(),
	orderRows(),
	indexRows(),
	gatherRows(),
	bagRows(),
	normRows(),
	matmulRows(),
	linearWeightGradRows(),
	attentionRows(),
	entropyRows(),
	lossRows(),
	convRows(),
	planeRows(),
	optimRows(),
	cellRows(),
)

// Rows lists the operations that this package implements, with a Func for each type. It is the only list: a kernel that
// does not stand here does not exist.
func Rows() []op.Row { return slices.Clone(rows) }
