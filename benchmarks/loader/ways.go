package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cistern-ml/cistern/autograd/data"
	"github.com/cistern-ml/cistern/tensor"
)

// feed gives each batch of an epoch to a function, in order.
type feed func(f func(x, y *tensor.Tensor) error) error

// way is one of the ways to have an epoch.
type way struct {
	name  string
	feed  feed
	train bool
	close func() error // nil if there is nothing to close
}

// ways are all of them, in the order of the table.
func (o *options) ways(e tensor.Exec, f *files) []*way {
	ways := []*way{{name: "loop", feed: f.loop(e, o.batch), train: true}}
	for _, n := range o.counts {
		ways = append(ways, &way{name: fmt.Sprintf("loop, %d goroutines", n), feed: f.ahead(e, o.batch, n), train: true})
	}
	ways = append(ways, loaderWay("loader", e, f, o.batch))
	for _, n := range o.counts {
		ways = append(ways, loaderWay(fmt.Sprintf("loader, %d workers", n), e, f, o.batch, data.Workers(n)),
			loaderWay(fmt.Sprintf("loader, %d workers, pinned", n), e, f, o.batch, data.Workers(n), data.PinMemory()))
	}
	for _, n := range o.counts {
		ways = append(ways, &way{name: fmt.Sprintf("decoding, %d goroutines", n), feed: f.ahead(e, o.batch, n)})
	}
	return append(ways, &way{name: "training", feed: f.ready(e, o.batch), train: true})
}

// batch makes a batch on the host from image first on.
func (f *files) batch(first, n int) (pixels []float32, labels []int64, shape []int, err error) {
	for i := first; i < min(first+n, len(f.names)); i++ {
		a, err := f.decode(i)
		if err != nil {
			return nil, nil, nil, err
		}
		values, err := data.Elements[float32](a)
		if err != nil {
			return nil, nil, nil, err
		}
		pixels, labels, shape = append(pixels, values...), append(labels, int64(i%classes)), a.Shape()
	}
	return pixels, labels, append([]int{len(labels)}, shape...), nil
}

// upload brings a batch to the device and gives it to use.
func upload(e tensor.Exec, pixels []float32, labels []int64, shape []int, use func(x, y *tensor.Tensor) error) error {
	x, err := tensor.FromSlice(e, pixels, shape...)
	if err != nil {
		return err
	}
	defer x.Release()
	y, err := tensor.FromSlice(e, labels)
	if err != nil {
		return err
	}
	defer y.Release()
	return use(x, y)
}

// loop makes a batch and uses it, one after the other.
func (f *files) loop(e tensor.Exec, n int) feed {
	return func(use func(x, y *tensor.Tensor) error) error {
		for first := 0; first < len(f.names); first += n {
			pixels, labels, shape, err := f.batch(first, n)
			if err == nil {
				err = upload(e, pixels, labels, shape, use)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// made is a batch on the host.
type made struct {
	pixels []float32
	labels []int64
	shape  []int
	err    error
}

// ahead has goroutines that make batches, twice as many ahead as there are of them, as the loader does.
func (f *files) ahead(e tensor.Exec, n, goroutines int) feed {
	return func(use func(x, y *tensor.Tensor) error) (err error) {
		type job struct {
			first int
			done  chan made
		}
		jobs, order := make(chan job, 2*goroutines), make(chan job, 2*goroutines)
		ctx, end := context.WithCancel(context.Background())
		defer end()
		for range goroutines {
			go func() {
				for j := range jobs {
					var m made
					m.pixels, m.labels, m.shape, m.err = f.batch(j.first, n)
					j.done <- m
				}
			}()
		}
		go func() {
			defer close(jobs)
			defer close(order)
			for first := 0; first < len(f.names); first += n {
				j := job{first, make(chan made, 1)}
				select {
				case <-ctx.Done():
					return
				case jobs <- j:
					order <- j
				}
			}
		}()
		for j := range order {
			m := <-j.done
			if err == nil {
				err = m.err
			}
			if err == nil {
				err = upload(e, m.pixels, m.labels, m.shape, use)
			}
			if err != nil {
				end() // the others are taken, so that the goroutines end
			}
		}
		return err
	}
}

// ready has made all batches before.
func (f *files) ready(e tensor.Exec, n int) feed {
	var all []made
	return func(use func(x, y *tensor.Tensor) error) error {
		for first := len(all) * n; first < len(f.names); first += n {
			var m made
			if m.pixels, m.labels, m.shape, m.err = f.batch(first, n); m.err != nil {
				return m.err
			}
			all = append(all, m)
		}
		for _, m := range all {
			if err := upload(e, m.pixels, m.labels, m.shape, use); err != nil {
				return err
			}
		}
		return nil
	}
}

func loaderWay(name string, e tensor.Exec, f *files, n int, opts ...data.Option) *way {
	source := data.Func(len(f.names), func(_ context.Context, i int64, _ *rand.Rand) (data.Example, error) {
		a, err := f.decode(int(i))
		return data.Example{a, data.Scalar(i % classes)}, err
	})
	loader := data.NewSourceLoader(e.Device(), source, n, opts...)
	return &way{name: name, train: true, close: loader.Close, feed: func(use func(x, y *tensor.Tensor) error) error {
		for x, y := range loader.Batches() {
			if err := use(x, y); err != nil {
				return err
			}
		}
		return loader.Err()
	}}
}

// finish closes what ways have open.
func finish(ways []*way) (err error) {
	for _, w := range ways {
		if w.close != nil {
			err = errors.Join(err, w.close())
		}
	}
	return err
}
