package sparse_test

import (
	"fmt"
	"log"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/sparse"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// A graph convolution: each node takes the mean of what its neighbours have.
func ExamplePattern_MatMul() {
	e, err := tensor.On(host.Default())
	if err != nil {
		log.Fatal(err)
	}
	edges, err := sparse.COO(e, 3, 3, []int64{0, 0, 1, 2}, []int64{1, 2, 0, 0}) // from 1 and 2 to 0, and from 0 to them
	if err != nil {
		log.Fatal(err)
	}
	defer edges.Release()
	g := autograd.NewGraph(host.Default(), autograd.NoGrad())
	defer g.Release()
	x := autograd.FromSlice(g, []float32{1, 2, 3, 4, 5, 6}, 3, 2)
	degree := edges.SumRows(g.Ones(tensor.Float32, edges.Len()))
	weights := edges.OfRows(degree.Reciprocal())
	h, err := edges.MatMul(weights, x).Float64s()
	fmt.Println(h, err)
	// Output: [4 5 1 2 1 2] <nil>
}
