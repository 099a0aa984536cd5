package cuda

import (
	"fmt"
	"sync"
	"time"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/blas"
	"github.com/cistern-ml/cistern/device/cuda/internal/driver"
	"github.com/cistern-ml/cistern/device/dtype"
)

// OperationKind tells what an Operation is.
type OperationKind uint8

// The kinds.
const (
	KernelOperation  OperationKind = iota // a launch of a kernel
	ProductOperation                      // a matrix product of cuBLAS or cuBLASLt
	CopyOperation
	FillOperation
	GraphOperation // a launch of a graph, with all that is in it
)

// String is one word, as in "kernel".
func (k OperationKind) String() string {
	switch k {
	case KernelOperation:
		return "kernel"
	case ProductOperation:
		return "product"
	case CopyOperation:
		return "copy"
	case FillOperation:
		return "fill"
	case GraphOperation:
		return "graph"
	}
	return fmt.Sprintf("OperationKind(%d)", uint8(k))
}

// Operation says what was enqueued on a stream, as far as a Profile tells operations apart. Fields that its kind does not have are zero.
type Operation struct {
	Kind   OperationKind
	Name   string             // what errors call it: a kernel's operation, a function of the library, a method of Stream; a graph's name
	Kernel string             // the kernel's name in its image
	Launch device.LaunchShape // of a kernel
	For    string             // what a kernel was launched for, if that was said (device.DescribedKernel)

	// Of a product: Batch products of an M by K matrix and a K by N matrix of Type.
	Type    dtype.DType
	M, N, K int
	Batch   int
	Layout  string // "N" or "T" for each operand: its rows, or else its columns, lie in one piece

	Bytes uint64 // that were copied or filled
}

// Shape is what tells operations of one name apart, in words: the grid and block of a kernel with its dynamic shared memory, and what
// it was launched for; the sizes and the type of a product, the bytes of a copy.
func (o *Operation) Shape() string {
	switch o.Kind {
	case KernelOperation:
		s := "<" + sizeOf(o.Launch.Grid) + "> x <" + sizeOf(o.Launch.Block) + ">"
		if o.Launch.Shared > 0 {
			s += fmt.Sprintf(" + %d B", o.Launch.Shared)
		}
		if o.For != "" {
			s += "  " + o.For
		}
		return s
	case ProductOperation:
		s := fmt.Sprintf("m=%d n=%d k=%d %s %s", o.M, o.N, o.K, o.Type, o.Layout)
		if o.Batch > 1 {
			s += fmt.Sprintf(" batch=%d", o.Batch)
		}
		return s
	case CopyOperation, FillOperation:
		return fmt.Sprintf("%d B", o.Bytes)
	}
	return ""
}

// sizeOf is the dimensions up to the last that is not 1, as in "64,12".
func sizeOf(d device.Dim3) string {
	switch x, y, z := max(d.X, 1), max(d.Y, 1), max(d.Z, 1); {
	case z > 1:
		return fmt.Sprintf("%d,%d,%d", x, y, z)
	case y > 1:
		return fmt.Sprintf("%d,%d", x, y)
	default:
		return fmt.Sprint(x)
	}
}

// label is the name, and the kernel's if that is another.
func (o *Operation) label() string {
	if o.Kernel != "" && o.Kernel != o.Name {
		return o.Name + " (" + o.Kernel + ")"
	}
	return o.Name
}

// work is what the operation does, as far as it is known: floating-point operations of a product, bytes of a copy or fill.
func (o *Operation) work() float64 {
	if o.Kind == ProductOperation {
		return 2 * float64(o.M) * float64(o.N) * float64(o.K) * float64(o.Batch)
	}
	return float64(o.Bytes)
}

// rate is work of a kind in a time, in words; "" if the work is not known.
func (k OperationKind) rate(work float64, took time.Duration) string {
	switch {
	case work <= 0 || took <= 0:
		return ""
	case k == ProductOperation:
		return fmt.Sprintf("%.4g TFLOP/s", work/took.Seconds()/1e12)
	}
	return fmt.Sprintf("%.4g GB/s", work/took.Seconds()/1e9)
}

// operation describes a call that enqueues something on a stream by its arguments. name is what errors call it.
func (d *Device) operation(name string, f driver.Func, args []uintptr) Operation {
	switch f {
	case driver.LaunchKernel: // function, grid, block, dynamic shared memory, stream, parameters
		n := func(i int) uint32 { return uint32(args[i]) }
		return Operation{Kind: KernelOperation, Name: name, Kernel: d.names.of(args[0]), Launch: device.LaunchShape{
			Grid: device.Dim3{X: n(1), Y: n(2), Z: n(3)}, Block: device.Dim3{X: n(4), Y: n(5), Z: n(6)}, Shared: n(7),
		}}
	case driver.GraphLaunch:
		return Operation{Kind: GraphOperation, Name: d.names.of(args[0])}
	case driver.MemsetD8Async:
		return Operation{Kind: FillOperation, Name: name, Bytes: uint64(args[2])}
	case driver.MemcpyPeerAsync: // its contexts stand between addresses and length
		return Operation{Kind: CopyOperation, Name: name, Bytes: uint64(args[4])}
	}
	return Operation{Kind: CopyOperation, Name: name, Bytes: uint64(args[2])}
}

// productOperation describes a product, in the words of its caller and not in those of the library, which may compute the transpose.
func productOperation(name string, p *blas.Product, g *blas.Gemm) Operation {
	layout := func(m blas.Matrix) string {
		if m.Column == 1 {
			return "N"
		}
		return "T"
	}
	return Operation{Kind: ProductOperation, Name: name, Type: p.Type, M: p.M, N: p.N, K: p.K, Batch: g.Count, Layout: layout(p.A) + layout(p.B)}
}

// handleNames are the names of kernels and graphs by the driver's handles.
type handleNames struct {
	mu    sync.Mutex // taken by operations only while a profile runs
	names map[uintptr]string
}

// set says what a handle is now: the driver gives those of closed modules and graphs to others.
func (h *handleNames) set(handle uintptr, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[uintptr]string{}
	}
	h.names[handle] = name
}

// drop forgets a handle that is no more.
func (h *handleNames) drop(handle uintptr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.names, handle)
}

func (h *handleNames) of(handle uintptr) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[handle]
}
