package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// The sizes of the product: tiles of tensor cores, and a ragged edge.
const m, n, k = 136, 120, 200

// onCUDA is the device if it is a GPU.
func (s *smoke) onCUDA() (*cuda.Device, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	d, ok := s.dev.(*cuda.Device)
	if !ok {
		return nil, skipf("%s is no GPU", s.dev.ID())
	}
	return d, nil
}

func (s *smoke) ownProduct() (string, error) {
	d, err := s.onCUDA()
	if err != nil {
		return "", err
	}
	d.UseBLAS(false)
	defer d.UseBLAS(true)
	return fmt.Sprintf("float16, %d x %d x %d", m, n, k), s.product()
}

func (s *smoke) libraryProduct() (string, error) {
	d, err := s.onCUDA()
	if err != nil {
		return "", err
	}
	before := d.BLAS()
	if before.Reason != nil {
		return "", skipf("%v", before.Reason)
	}
	if err := s.product(); err != nil {
		return "", err
	}
	after := d.BLAS()
	if after.Products == before.Products {
		return "", fmt.Errorf("the library did not take the product: %s", after)
	}
	return after.String(), nil
}

// product multiplies small integers in float16: every sum is exact in float32 and fits float16, so all bits are known.
func (s *smoke) product() error {
	a, b := numbers(m*k, 0), numbers(k*n, 3)
	x, err := s.half(a, m, k)
	if err != nil {
		return err
	}
	defer x.Release()
	y, err := s.half(b, k, n)
	if err != nil {
		return err
	}
	defer y.Release()
	z, err := x.MatMul(y)
	if err != nil {
		return err
	}
	defer z.Release()
	want := make([]float32, m*n)
	for i := range m {
		for j := range k {
			for l := range n {
				want[i*n+l] += a[i*k+j] * b[j*n+l]
			}
		}
	}
	return same(z, func(i int) float32 { return want[i] })
}

// half is a matrix of float16.
func (s *smoke) half(values []float32, shape ...int) (*tensor.Tensor, error) {
	x, err := tensor.FromSlice(s.exec, values, shape...)
	if err != nil {
		return nil, err
	}
	defer x.Release()
	return x.To(dtype.Float16)
}

const replays = 3

// graph captures an addition in place, and what it needs, and replays it.
func (s *smoke) graph() (says string, err error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	caching, ok := s.exec.Allocator().(*memory.Caching)
	if !ok {
		return "", skipf("the allocator does not cache")
	}
	stream, err := s.dev.NewStream()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	if _, ok := stream.(device.Capturer); !ok {
		return "", skipf("%s has no graphs", s.dev.ID())
	}
	e, err := tensor.On(s.dev, tensor.WithStream(stream))
	if err != nil {
		return "", err
	}
	x, err := tensor.Zeros(e, dtype.Float32, length)
	if err != nil {
		return "", err
	}
	defer x.Release()
	return fmt.Sprintf("%d replays", replays), replay(caching, stream, x)
}

// replay adds 1 and 2 to x in each of some replays of a graph.
func replay(caching *memory.Caching, stream device.Stream, x *tensor.Tensor) (err error) {
	add := func() error {
		one, err := x.AddScalar(1)
		if err != nil {
			return err
		}
		defer one.Release()
		two, err := one.AddScalar(2)
		if err != nil {
			return err
		}
		defer two.Release()
		return x.CopyFrom(two)
	}
	g, err := caching.CaptureGraph(stream, add)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Synchronize(context.Background()), g.Close()) }()
	for range replays {
		if err := g.Replay(stream); err != nil {
			return err
		}
	}
	return same(x, func(int) float32 { return 3 * replays })
}
