package generate_test

import (
	"fmt"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn/generate"
	"github.com/cistern-ml/cistern/device/host"
	"github.com/cistern-ml/cistern/tensor"
)

// What a sampler leaves of five tokens, and what it draws.
func ExampleSampler() {
	g := autograd.NewGraph(host.Default(), autograd.NoGrad(), autograd.WithGenerator(tensor.NewGenerator(1)))
	defer g.Release()
	logits := autograd.FromSlice(g, []float32{1, 3, 2, -1, 2.5})
	s := generate.Sampler{Temperature: 0.5, TopK: 3, TopP: 0.9}
	p, err := s.Logits(logits, nil).Softmax(-1).Float64s()
	fmt.Printf("%.2f %v\n", p, err)
	next, err := autograd.Values[int64](s.Next(logits, nil))
	fmt.Println(next, err)
	// Output:
	// [0.00 0.73 0.00 0.00 0.27] <nil>
	// [4] <nil>
}
