package kernels

import (
	"fmt"

	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/cpu"
	"github.com/cistern-ml/cistern/kernels/cuda"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Func runs or launches one call; see op.Func.
type Func = op.Func

// Row is what one kind of device offers for one operation; see op.Row.
type Row = op.Row

// table has the rows of one kind of device, by operation.
type table [op.Count]Row

// kinds is the length of tables indexed by device.Kind.
const kinds = int(device.Sim) + 1

// tables has the rows of each kind of device; nil where there are none. It does not change after start.
var tables = func() (t [kinds]*table) {
	processor := newTable(cpu.Rows())
	t[device.Host] = processor
	t[device.Sim] = processor // what a simulated device would run if it had storage
	t[device.CUDA] = newTable(cuda.Rows())
	return t
}()

func newTable(rows []Row) *table {
	t := new(table)
	for _, r := range rows {
		t[r.Op] = r
	}
	return t
}

// lookup is the row of an operation, or nil.
func lookup(kind device.Kind, id op.ID) *Row {
	if int(kind) >= kinds || tables[kind] == nil || !id.Valid() {
		return nil
	}
	return &tables[kind][id]
}

// Lookup finds the kernel of an operation for key type d (see op.Call.Key) on one kind of device.
func Lookup(kind device.Kind, id op.ID, d dtype.DType) (Func, bool) {
	r := lookup(kind, id)
	if r == nil || !d.Valid() {
		return nil, false
	}
	return r.Funcs[d], r.Funcs[d] != nil
}

// Workspace is the number of bytes that Call.Work must have for this call, 0 for most operations. All else of the call must
// be filled in already.
func Workspace(c *op.Call) uint64 {
	r := lookup(c.Stream.Device().ID().Kind, c.Op)
	if r == nil || r.Workspace == nil {
		return 0
	}
	return r.Workspace(c)
}

// MissingError says that a device has no kernel for an operation on a type.
type MissingError struct {
	Op     op.ID
	DType  dtype.DType
	Device device.ID
}

// Error returns one line: operation, type and device.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: no kernel for %s on %s", e.Op, e.DType, e.Device)
}
