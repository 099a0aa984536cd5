package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// check is one of the checks. It says what it found.
type check struct {
	name string
	run  func(s *smoke) (string, error)
}

// checks go from what everything needs to what little needs.
var checks = []check{
	{"driver", (*smoke).driver},
	{"open", (*smoke).open},
	{"context", (*smoke).context},
	{"copy", (*smoke).copy},
	{"add", (*smoke).add},
	{"product, own kernels", (*smoke).ownProduct},
	{"product, cuBLAS", (*smoke).libraryProduct},
	{"captured graph", (*smoke).graph},
	{"bad index", (*smoke).badIndex},
	{"out of memory", (*smoke).outOfMemory},
	{"memory is back", (*smoke).returned},
}

// skip is the error of a check that has nothing to check on this device.
type skip struct{ why string }

func (s *skip) Error() string { return "skipped: " + s.why }

func skipf(format string, values ...any) error { return &skip{fmt.Sprintf(format, values...)} }

// smoke is the device under check.
type smoke struct {
	device string
	opener func(name string) (device.Device, error)
	dev    device.Device
	name   string
	exec   tensor.Exec
}

// shut gives the device back.
func shut(dev device.Device) error { return errors.Join(memory.Drop(dev), dev.Close()) }

// lost is the error that ended the device, if one did.
func (s *smoke) lost() error {
	if d, ok := s.dev.(interface{ Err() error }); ok {
		return d.Err()
	}
	return nil
}

// ready refuses checks of a device that was not opened.
func (s *smoke) ready() error {
	if s.dev == nil || s.exec == (tensor.Exec{}) {
		return skipf("there is no device")
	}
	return nil
}

func (s *smoke) driver() (string, error) {
	spec, err := device.ParseSpec(s.device)
	if err != nil {
		return "", err
	}
	if spec.Kind != device.CUDA {
		return "", skipf("%s needs no driver", spec.Kind)
	}
	if err := cuda.Unavailable(); err != nil {
		return "", err
	}
	major, minor := cuda.DriverVersion()
	return fmt.Sprintf("CUDA %d.%d, %d devices, %s/%s", major, minor, device.Count(device.CUDA), runtime.GOOS, runtime.GOARCH), nil
}

func (s *smoke) open() (string, error) {
	dev, err := s.opener(s.device)
	if err != nil {
		return "", err
	}
	s.dev = dev
	p := dev.Properties()
	if s.name = p.Name; p.Major == 0 {
		return p.Name, nil
	}
	return fmt.Sprintf("%s, compute capability %d.%d, %d processors, %s, up to %s of shared memory for a block", p.Name, p.Major, p.Minor, p.Processors,
		device.FormatBytes(p.TotalMemory), device.FormatBytes(uint64(p.SharedMemory))), nil
}

// context is the first call that makes the driver's context.
func (s *smoke) context() (string, error) {
	if s.dev == nil {
		return "", s.ready()
	}
	info, err := s.dev.MemInfo()
	if err != nil {
		return "", err
	}
	if s.exec, err = tensor.On(s.dev); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s free of %s", device.FormatBytes(info.Free), device.FormatBytes(info.Total)), nil
}

// length is odd, and its bytes are more than one piece of a staged copy.
const length = 600_001

// numbers are integers from -3 to 3: sums of k products of them are exact in float16, which has all integers up to 2048.
func numbers(n, from int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32((i*5+from)%7 - 3)
	}
	return list
}

func (s *smoke) copy() (string, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	want := numbers(length, 0)
	x, err := tensor.FromSlice(s.exec, want, length)
	if err != nil {
		return "", err
	}
	defer x.Release()
	return fmt.Sprintf("%d bytes there and back", 4*length), same(x, func(i int) float32 { return want[i] })
}

// same compares all elements.
func same(x *tensor.Tensor, want func(i int) float32) error {
	got, err := x.Float64s()
	if err != nil {
		return err
	}
	wrong, first := 0, 0
	for i, v := range got {
		if v != float64(want(i)) {
			if wrong == 0 {
				first = i
			}
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d elements are wrong; element %d is %v, not %v", wrong, len(got), first, got[first], want(first))
	}
	return nil
}

func (s *smoke) add() (string, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	a, b := numbers(length, 0), numbers(length, 5)
	x, err := tensor.FromSlice(s.exec, a, length)
	if err != nil {
		return "", err
	}
	defer x.Release()
	y, err := tensor.FromSlice(s.exec, b, length)
	if err != nil {
		return "", err
	}
	defer y.Release()
	z, err := x.Add(y)
	if err != nil {
		return "", err
	}
	defer z.Release()
	return fmt.Sprintf("%d float32", length), same(z, func(i int) float32 { return a[i] + b[i] })
}

func (s *smoke) outOfMemory() (string, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	info, err := s.dev.MemInfo()
	if err != nil {
		return "", err
	}
	b, err := s.exec.Allocator().Alloc(2*info.Total, s.exec.Stream())
	var oom *memory.OOMError
	switch {
	case err == nil:
		s.exec.Allocator().FreeLater(b)
		return "", fmt.Errorf("the device gave %s, twice what it has", device.FormatBytes(2*info.Total))
	case !errors.As(err, &oom):
		return "", fmt.Errorf("not an OOMError: %w", err)
	}
	if _, err := s.add(); err != nil {
		return "", fmt.Errorf("after the refusal: %w", err)
	}
	return fmt.Sprintf("%s were refused, and the next addition is right", device.FormatBytes(2*info.Total)), nil
}

func (s *smoke) badIndex() (string, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	x, err := tensor.FromSlice(s.exec, numbers(12, 0), 4, 3)
	if err != nil {
		return "", err
	}
	defer x.Release()
	index, err := tensor.FromSlice(s.exec, []int64{0, 4, 3})
	if err != nil {
		return "", err
	}
	defer index.Release()
	rows, err := x.IndexSelect(0, index)
	if err == nil { // the device tells when somebody waits
		rows.Release()
		err = s.exec.Stream().Synchronize(context.Background())
	}
	if !errors.Is(err, op.ErrIndex) {
		return "", fmt.Errorf("index 4 of 4 rows is no ErrIndex but: %v", err)
	}
	if _, after := s.add(); after != nil {
		return "", fmt.Errorf("after the error: %w", after)
	}
	return err.Error(), nil
}

// returned gives the cache back. What is still allocated was lost by a check.
func (s *smoke) returned() (string, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	if err := s.exec.Allocator().EmptyCache(); err != nil {
		return "", err
	}
	stats := s.exec.Allocator().Stats()
	if held := stats.AllocatedBytes.All.Current; held != 0 {
		return "", fmt.Errorf("%d bytes are still allocated", held)
	}
	info, err := s.dev.MemInfo()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s free of %s", device.FormatBytes(info.Free), device.FormatBytes(info.Total)), nil
}
