package kerneltest

import (
	"errors"
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/kernels/op"
)

// banks are copies of the image, each far from the one before. The elements of a tensor whose index along its outermost dimension
// is i are in bank i, where the image has them; the rest of each bank must stay as it is.
type banks struct {
	dev    device.VirtualMemory
	apart  uint64
	base   device.Ptr
	mapped uint64 // bytes of each bank
}

// numBanks is the number of banks, and of slices that a tensor of a case may have.
const numBanks = 5

func newBanks(dev device.Device, apart uint64) (*banks, error) {
	v, ok := dev.(device.VirtualMemory)
	if !ok || v.Granularity() == 0 {
		return nil, fmt.Errorf("%s has no virtual memory: %w", dev.ID(), device.ErrUnavailable)
	}
	base, err := v.Reserve(apart * numBanks)
	return &banks{dev: v, apart: apart, base: base}, err
}

// grow maps at least n bytes of each bank, and returns where they are and how many.
func (b *banks) grow(n uint64) (device.Ptr, uint64, error) {
	page := b.dev.Granularity()
	n = (n + page - 1) / page * page
	if n > b.apart {
		return 0, 0, fmt.Errorf("a case wants %d bytes: banks are %d apart", n, b.apart)
	}
	for i := range uint64(numBanks) {
		if err := b.dev.Map(b.base.Add(i*b.apart+b.mapped), n-b.mapped, page); err != nil {
			for k := range i { // banks are alike
				err = errors.Join(err, b.dev.Unmap(b.base.Add(k*b.apart+b.mapped), n-b.mapped))
			}
			return 0, 0, err
		}
	}
	b.mapped = n
	return b.base, n, nil
}

func (b *banks) close() (err error) {
	for i := range uint64(numBanks) {
		if b.mapped > 0 {
			err = errors.Join(err, b.dev.Unmap(b.base.Add(i*b.apart), b.mapped))
		}
	}
	return errors.Join(err, b.dev.Unreserve(b.base))
}

// stretch says of which tensors the slices go to banks: those that have gaps or are transposed, and few slices. It reports false if there
// are none.
func (b *banks) stretch(c *testCase) (any bool) {
	for _, list := range [][]*tensor{c.in, c.out} {
		for _, t := range list {
			t.far = t.outermost() + 1
			any = any || t.far > 0
		}
	}
	if c.alias > 0 {
		c.out[0].far = c.in[c.alias-1].far
	}
	return any && c.fails == nil
}

// outermost is the dimension of a tensor's slices, or -1.
func (t *tensor) outermost() int {
	if t.layout != gapped && t.layout != transposed || len(t.shape) < 2 || len(t.values) == 0 {
		return -1
	}
	d := 0
	if t.layout == transposed {
		d = len(t.shape) - 1
	}
	if t.shape[d] < 2 || t.shape[d] > numBanks || t.strides[d] <= 0 {
		return -1
	}
	return d
}

// spread makes the strides of a call's views those of the banks.
func (b *banks) spread(c *testCase, call *op.Call) {
	if b == nil {
		return
	}
	for _, l := range []struct {
		tensors []*tensor
		views   []op.View
	}{{c.in, call.In}, {c.out, call.Out}} {
		for i, t := range l.tensors {
			if t.far > 0 {
				l.views[i].Strides[t.far-1] += int(b.apart) / t.dtype.Size()
			}
		}
	}
}

func (b *banks) upload(s device.Stream, image []byte) error {
	for i := range uint64(numBanks) {
		if err := s.CopyToDevice(b.base.Add(i*b.apart), image); err != nil {
			return err
		}
	}
	return nil
}

// download is the image that the banks are together. An element that changed in a bank which is not its own is an error.
func (b *banks) download(s device.Stream, c *testCase, before []byte) ([]byte, error) {
	var all [numBanks][]byte
	for i := range all {
		all[i] = make([]byte, len(before))
		if err := s.CopyToHost(all[i], b.base.Add(uint64(i)*b.apart)); err != nil {
			return nil, err
		}
	}
	after := all[0]
	for _, t := range c.out {
		if t.far == 0 {
			continue
		}
		size := t.dtype.Size()
		var wrong error
		each(t.shape, func(_ int, index []int) {
			bank, at := index[t.far-1], t.address(index)
			if bank == 0 {
				return
			}
			if string(after[at:at+size]) != string(before[at:at+size]) {
				wrong = fmt.Errorf("%s: the element of the output at %v was written to bank 0", c, index)
			}
			copy(after[at:], all[bank][at:at+size])
			copy(all[bank][at:at+size], before[at:])
		})
		if wrong != nil {
			return nil, wrong
		}
	}
	for i, bank := range all[1:] {
		for at := range bank {
			if bank[at] != before[at] {
				return nil, fmt.Errorf("%s: byte %d of bank %d, where nothing of an output is, changed%s", c, at, i+1, c.owner(at))
			}
		}
	}
	return after, nil
}
