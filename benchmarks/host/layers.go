package main

import (
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// layerCases are normalisations, pooling, embeddings and gradients of rows.
func layerCases() []workload {
	list := append(normCases(), poolCases()...)
	list = append(list, embeddingCases()...)
	rows := shapes{{elements / columns, columns}, {elements / columns, columns}}
	return append(list,
		shaped("softmax gradient", elements, rows, func(x []*tensor.Tensor) error { return discard(gradients.Softmax(x[0], x[1], 1)) }),
		shaped("log softmax gradient", elements, rows,
			func(x []*tensor.Tensor) error { return discard(gradients.LogSoftmax(x[0], x[1], 1)) }))
}

// normCases are layer norm and batch norm, forward, and all three gradients.
func normCases() []workload {
	const rows, width = 512, 768
	layer := []int{width}
	images, channels := []int{16, 64, 32, 32}, []int{64}
	return []workload{
		shaped("layer norm", rows*width, shapes{{rows, width}, layer, layer}, func(x []*tensor.Tensor) error {
			y, m, err := tensor.LayerNorm(x[0], layer, x[1], x[2], 1e-5)
			return discardAll(err, y, m.Mean, m.Rstd)
		}),
		backward("layer norm gradient", rows*width, shapes{{rows, width}, layer, layer, {rows, width}},
			func(x []*tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
				return tensor.LayerNorm(x[0], layer, x[1], x[2], 1e-5)
			},
			func(x []*tensor.Tensor, m tensor.Moments) error {
				dx, err := gradients.LayerNorm(x[3], x[0], layer, m, x[1])
				if err != nil {
					return err
				}
				w, b, err := gradients.LayerNormSums(x[3], x[0], layer, m)
				return discardAll(err, dx, w, b)
			}),
		shaped("batch norm", side*side, shapes{images, channels, channels}, func(x []*tensor.Tensor) error {
			y, m, err := tensor.BatchNormTraining(x[0], nil, nil, x[1], x[2], 0.1, 1e-5)
			return discardAll(err, y, m.Mean, m.Rstd)
		}),
		backward("batch norm gradient", side*side, shapes{images, channels, channels, images},
			func(x []*tensor.Tensor) (*tensor.Tensor, tensor.Moments, error) {
				return tensor.BatchNormTraining(x[0], nil, nil, x[1], x[2], 0.1, 1e-5)
			},
			func(x []*tensor.Tensor, m tensor.Moments) error {
				w, b, err := gradients.BatchNormSums(x[3], x[0], m)
				if err != nil {
					return err
				}
				dx, err := gradients.BatchNorm(x[3], x[0], m, x[1], w, b)
				return discardAll(err, dx, w, b)
			}),
	}
}

// backward is a case of gradients that need the moments of a normalisation.
func backward(name string, elements int, of shapes, forward func(x []*tensor.Tensor) (*tensor.Tensor, tensor.Moments, error),
	f func(x []*tensor.Tensor, m tensor.Moments) error,
) workload {
	return workload{name, elements, func(s *scene) (func() error, error) {
		x, err := s.all(of)
		if err != nil {
			return nil, err
		}
		y, m, err := forward(x)
		s.kept = append(s.kept, y, m.Mean, m.Rstd)
		return func() error { return f(x, m) }, err
	}}
}

// poolCases are pooling and its gradients; elements are those of the image.
func poolCases() []workload {
	var list []workload
	image := []int{16, 64, 32, 32}
	for _, k := range []struct {
		name string
		p    tensor.Pool
		size int
	}{{"2x2", tensor.Pool{Kernel: []int{2}}, 16}, {"3x3 stride 2", tensor.Pool{Kernel: []int{3}, Stride: []int{2}, Padding: []int{1}}, 16}} {
		result := []int{16, 64, k.size, k.size}
		list = append(list,
			shaped("max pool "+k.name, side*side, shapes{image}, func(x []*tensor.Tensor) error {
				y, from, err := x[0].MaxPool2d(k.p)
				return discardAll(err, y, from)
			}),
			workload{"max pool " + k.name + " gradient", side * side, func(s *scene) (func() error, error) {
				x, err := s.all(shapes{image, result})
				if err != nil {
					return nil, err
				}
				y, from, err := x[0].MaxPool2d(k.p)
				s.kept = append(s.kept, y, from)
				return func() error { return discard(gradients.MaxPool(x[1], from, image, 2, k.p)) }, err
			}},
			shaped("average pool "+k.name, side*side, shapes{image}, func(x []*tensor.Tensor) error { return discard(x[0].AvgPool2d(k.p)) }),
			shaped("average pool "+k.name+" gradient", side*side, shapes{result},
				func(x []*tensor.Tensor) error { return discard(gradients.AvgPool(x[0], image, 2, k.p)) }))
	}
	return append(list, shaped("global average pool", side*side, shapes{image},
		func(x []*tensor.Tensor) error { return discard(x[0].AdaptiveAvgPool2d(1)) }))
}

// embeddingCases look up 1024 of 10000 rows of 256.
func embeddingCases() []workload {
	const rows, width, table = 1024, 256, 10000
	lookup := func(name string, of shapes, f func(x []*tensor.Tensor, idx *tensor.Tensor) error) workload {
		return workload{name, rows * width, func(s *scene) (func() error, error) {
			x, err := s.all(of)
			if err != nil {
				return nil, err
			}
			idx, err := s.keep(tensor.RandInt(s.Exec, tensor.NewGenerator(2), 0, table, tensor.Int64, rows))
			return func() error { return f(x, idx) }, err
		}}
	}
	return []workload{
		lookup("embedding", shapes{{table, width}},
			func(x []*tensor.Tensor, idx *tensor.Tensor) error { return discard(x[0].IndexSelect(0, idx)) }),
		lookup("embedding gradient", shapes{{rows, width}}, func(x []*tensor.Tensor, idx *tensor.Tensor) error {
			g, err := tensor.Zeros(x[0].Exec(), tensor.Float32, table, width)
			if err != nil {
				return err
			}
			defer g.Release()
			return g.IndexAddInPlace(0, idx, x[0])
		}),
	}
}

// productCases are products of matrices; their figures are per product of two numbers.
func productCases() []workload {
	var list []workload
	for _, s := range [][3]int{
		{16, 16, 16}, {64, 64, 64}, {128, 128, 128}, {512, 512, 512}, {1024, 1024, 1024},
		{1, 1024, 1024}, {8, 1024, 1024}, {64, 1024, 1024}, {1024, 1024, 1}, {1024, 64, 1024}, {1024, 1024, 16},
	} {
		m, k, n := s[0], s[1], s[2]
		list = append(list, shaped(fmt.Sprintf("product %dx%dx%d", m, k, n), m*k*n, shapes{{m, k}, {k, n}},
			func(x []*tensor.Tensor) error { return discard(x[0].MatMul(x[1])) }))
	}
	for _, s := range [][3]int{{1, 1024, 1024}, {64, 1024, 1024}, {512, 512, 512}} {
		m, k, n := s[0], s[1], s[2]
		list = append(list, shaped(fmt.Sprintf("linear %dx%dx%d", m, k, n), m*k*n, shapes{{m, k}, {n, k}, {n}},
			func(x []*tensor.Tensor) error { return discard(tensor.Linear(x[0], x[1], x[2])) }))
	}
	for _, s := range [][2]int{{256, 16}, {64, 64}, {16, 256}} {
		b, n := s[0], s[1]
		list = append(list, shaped(fmt.Sprintf("%d products %dx%d", b, n, n), b*n*n*n, shapes{{b, n, n}, {b, n, n}},
			func(x []*tensor.Tensor) error { return discard(x[0].MatMul(x[1])) }))
	}
	return list
}
