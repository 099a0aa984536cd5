package kerneltest

import (
	"context"
	"fmt"
	"slices"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels"
	"github.com/cistern-ml/cistern/kernels/op"
)

// testCase is one call and what must come of it.
type testCase struct {
	call op.Call // operation and scalars; views come from the tensors
	out  []*tensor
	in   []*tensor
	// alias: output 0 is the memory of input alias-1; 0 is no aliasing. The optimizers update in place: their output tensors
	// have values too.
	alias   int
	inPlace bool
	aligned bool       // all tensors begin at multiples of 64 bytes
	odd     bool       // strides that lead nowhere have odd values
	always  bool       // runs however few others do
	bits    bool       // results must equal the wanted values bit by bit
	want    [][]result // for each output, in the order of its values
	fails   error      // the call must fail with this
	ulps    float64    // tolerated ulps of the scale
}

// result is a wanted element.
type result struct {
	value
	scale float64 // see the package comment; 0 stands for the value itself
	any   bool    // the specification leaves it open
	most  float64 // what it may not be larger than, unless this is 0
}

// guard is the number of bytes of pattern around each tensor, and alignment that of places in the image.
const (
	guard     = 64
	alignment = 64
)

// rig runs cases on one stream of a device. Its device memory is kept between cases.
type rig struct {
	stream   device.Stream
	slack    float64
	memory   device.Ptr
	capacity uint64
	apart    *banks // nil: all memory of a case is in one piece
}

func (r *rig) close() error {
	if r.apart != nil {
		return r.apart.close()
	}
	if r.memory == 0 {
		return nil
	}
	return r.stream.Device().Free(r.memory)
}

// reserve makes the device memory at least n bytes.
func (r *rig) reserve(n uint64) (err error) {
	if n <= r.capacity {
		return nil
	}
	if r.apart != nil {
		r.memory, r.capacity, err = r.apart.grow(n)
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	n = max(n, 1<<20)
	p, err := r.stream.Device().Malloc(n)
	if err != nil {
		r.memory, r.capacity = 0, 0
		return err
	}
	r.memory, r.capacity = p, n
	return nil
}

// prepare makes the call of a case, with its views and workspace in device memory. The workspace lies behind the image, of
// size bytes.
func (r *rig) prepare(c *testCase, size int) (op.Call, error) {
	call := c.call
	call.Stream = r.stream
	work := (uint64(size) + 255) &^ 255
	for need := work; ; {
		if err := r.reserve(need); err != nil {
			return call, err
		}
		call.Out, call.In = views(c.out, r.memory), views(c.in, r.memory)
		r.apart.spread(c, &call)
		n := kernels.Workspace(&call)
		if work+n > need {
			need = work + n
			continue
		}
		if n > 0 {
			call.Work = op.View{Ptr: r.memory.Add(work), DType: dtype.Uint8, NDim: 1}
			call.Work.Shape[0], call.Work.Strides[0] = int(n), 1
		}
		return call, nil
	}
}

func views(tensors []*tensor, base device.Ptr) []op.View {
	list := make([]op.View, len(tensors))
	for i, t := range tensors {
		list[i] = t.view(base)
	}
	return list
}

// run carries out a case and returns what is wrong with it.
func (r *rig) run(c *testCase) error {
	if c.odd {
		for i, t := range slices.Concat(c.out, c.in) {
			t.misplace(i)
		}
	}
	image := c.layOut()
	call, err := r.prepare(c, len(image))
	if err != nil {
		return err
	}
	if err := op.Check(&call); err != nil {
		return fmt.Errorf("the suite made a malformed call: %w", err)
	}
	if err := r.upload(image); err != nil {
		return err
	}
	err = kernels.Launch(&call)
	if err == nil {
		err = r.stream.Synchronize(context.Background())
	}
	if c.fails != nil {
		return wantError(err, c.fails)
	}
	if err != nil {
		return err
	}
	after, err := r.download(c, image)
	if err != nil {
		return err
	}
	return c.compare(image, after, r.slack)
}

func (r *rig) upload(image []byte) error {
	if r.apart != nil {
		return r.apart.upload(r.stream, image)
	}
	return r.stream.CopyToDevice(r.memory, image)
}

// download is the image after a call.
func (r *rig) download(c *testCase, before []byte) ([]byte, error) {
	if r.apart != nil {
		return r.apart.download(r.stream, c, before)
	}
	after := make([]byte, len(before))
	return after, r.stream.CopyToHost(after, r.memory)
}

// layOut gives the tensors their places and makes the image.
func (c *testCase) layOut() []byte {
	size := guard
	put := func(t *tensor) {
		size = (size + alignment - 1) / alignment * alignment
		if !c.aligned && !t.aligned {
			size += t.dtype.Size() * (len(t.shape) % 3) // an odd start, but for one in three
		}
		t.place = size
		size += t.span*t.dtype.Size() + guard
	}
	for _, t := range c.in {
		put(t)
	}
	for i, t := range c.out {
		if i == 0 && c.alias > 0 {
			t.place = c.in[c.alias-1].place
		} else {
			put(t)
		}
	}
	image := make([]byte, size)
	for i := range image {
		image[i] = byte(i*7 + 0xA5)
	}
	for _, t := range c.in {
		t.writeTo(image)
	}
	if c.inPlace {
		for _, t := range c.out {
			t.writeTo(image)
		}
	}
	return image
}

func (t *tensor) writeTo(image []byte) {
	each(t.shape, func(p int, index []int) {
		encode(image[t.address(index):][:0], t.dtype, t.values[p])
	})
}
