package cuda

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/cuda/internal/cublas"
)

// BLASStatus is what a function of cuBLAS returned, cublasStatus_t. It is the innermost error of every *device.Error that comes
// from that library, and wraps the sentinel of package device that says the same.
type BLASStatus uint32

// Error returns the name in the library's header and the number, as in "CUBLAS_STATUS_EXECUTION_FAILED (13)".
func (s BLASStatus) Error() string { return cublas.Status(s).String() }

// Unwrap returns the sentinel of package device.
func (s BLASStatus) Unwrap() error {
	switch cublas.Status(s) {
	case cublas.AllocFailed:
		return device.ErrOutOfMemory
	case cublas.InvalidValue:
		return device.ErrInvalidValue
	case cublas.NotInitialized, cublas.ArchMismatch, cublas.NotSupported, cublas.LicenseError:
		return device.ErrUnavailable
	}
	return device.ErrLaunch
}

// statusOf is the status in an error of the library.
func statusOf(err error) (BLASStatus, bool) {
	var status BLASStatus
	return status, errors.As(err, &status)
}

// BLAS says how a device computes matrix products.
type BLAS struct {
	Library   string // cuBLAS as it was opened; empty if this package's own kernels do all
	Version   int    // of the library, 120805 for 12.8.5; 0 if it does not say
	Lt        bool   // cuBLASLt computes products with a bias or an activation
	Workspace uint64 // bytes that a product may take while it runs
	Reason    error  // why the library is not used; nil if it is
	Products  uint64 // that went to the library
	Refusals  uint64 // that it did not take, and that went to own kernels
	Refusal   error  // the last one
}

// String is one line.
func (b BLAS) String() string {
	if b.Reason != nil {
		return "own kernels: " + b.Reason.Error()
	}
	lt := "without cuBLASLt"
	if b.Lt {
		lt = "with cuBLASLt"
	}
	s := fmt.Sprintf("cuBLAS %d, %s, %s: %d products, %d refused", b.Version, b.Library, lt, b.Products, b.Refusals)
	if b.Refusal != nil {
		s += ", last: " + b.Refusal.Error()
	}
	return s
}

// BLAS says whether matrix products of the device go to cuBLAS, and if not, why. It loads the library if nobody has multiplied
// yet.
//
// The library is that of CISTERN_CUBLAS_LIBRARY (a file, or folders; "off" for none), or the newest one that the driver can run
// in the places where systems, toolkits and Python's packages have it. Its workspace has the size that PyTorch gives it, or what
// CUBLAS_WORKSPACE_CONFIG says, and comes from the allocator of the operation, for the time of the operation.
func (d *Device) BLAS() BLAS {
	d = d.orAbsent()
	if d.blas.off.Load() {
		return BLAS{Reason: d.fail("cuBLAS", device.ErrUnavailable, "turned off by UseBLAS")}
	}
	m := d.multiplies()
	switch {
	case m == nil && !d.blas.begun.Load():
		return BLAS{Reason: d.fail("cuBLAS", device.ErrUnavailable, "it is not loaded while a stream is being captured")}
	case m == nil:
		return BLAS{Reason: d.blas.reason}
	}
	b := BLAS{Library: m.library.Path(), Lt: m.lt != 0, Workspace: m.workspace, Products: m.products.Load(), Refusals: m.refusals.Load()}
	if e := m.refusal.Load(); e != nil {
		b.Refusal = e
	}
	if c, err := d.blasCalls("cuBLAS"); err == nil {
		c.add(cublas.GetVersion, m.handle, c.b.Out(0))
		if c.run() == nil {
			b.Version = int(int32(c.b.Value(0)))
		}
		c.release()
	}
	return b
}

// UseBLAS turns the library off for this device, or on again, as it is at first. Products that run meanwhile may go either way.
func (d *Device) UseBLAS(use bool) { d.orAbsent().blas.off.Store(!use) }

// SetAllowTF32 lets products of float32 round their operands to TF32, 10 bits of mantissa, which is several times faster on
// tensor cores: torch.backends.cuda.matmul.allow_tf32. It is off by default. Only the library does it; own kernels never do.
func (d *Device) SetAllowTF32(allow bool) { d.orAbsent().blas.tf32.Store(allow) }

// AllowTF32 reports what SetAllowTF32 set.
func (d *Device) AllowTF32() bool { return d.orAbsent().blas.tf32.Load() }

// WorkspaceVariable is the environment variable with the library's workspace, as the library and PyTorch read it: pairs of a size
// in KiB and a number of buffers, as in ":4096:2:16:8". The sum of them is what a product may take.
const WorkspaceVariable = "CUBLAS_WORKSPACE_CONFIG"

// workspacePairs are the pairs of numbers, each behind a colon, that a value has. What is between them does not matter.
func workspacePairs(value string) (pairs [][2]string) {
	for {
		_, rest, found := strings.Cut(value, ":")
		if !found {
			return pairs
		}
		size, rest := digits(rest)
		count, after := digits(strings.TrimPrefix(rest, ":"))
		if size == "" || count == "" || rest[0] != ':' {
			value = rest
			continue
		}
		pairs = append(pairs, [2]string{size, count})
		value = after
	}
}

// digits cuts the digits at the beginning of s off.
func digits(s string) (number, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// workspaceSize is the workspace in bytes for a GPU of so high a compute capability: as in PyTorch 32 MiB on Hopper and
// Blackwell, ":4096:2:16:8" on others. As there, a value without a pair counts as none. A sum that is no number of bytes is an
// error.
func workspaceSize(major int) (uint64, error) {
	value := os.Getenv(WorkspaceVariable)
	pairs := workspacePairs(value)
	if len(pairs) == 0 {
		switch major {
		case 9, 10, 12:
			return 32 << 20, nil
		}
		return (2*4096 + 8*16) << 10, nil
	}
	var kib uint64
	for _, pair := range pairs {
		size, err := strconv.ParseUint(pair[0], 10, 31)
		count, err2 := strconv.ParseUint(pair[1], 10, 10)
		if err := errors.Join(err, err2); err != nil {
			return 0, fmt.Errorf("%s=%q: %w", WorkspaceVariable, value, err)
		}
		kib += size * count
	}
	return kib << 10, nil
}
