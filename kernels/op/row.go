package op

import "github.com/cistern-ml/cistern/device/dtype"

// Func runs or launches one call. The operation, and the type of its key view, are those of the row it stands in.
type Func func(*Call) error

// Row is what one kind of device offers for one operation: a Func for each type of the key view, nil where there is none.
type Row struct {
	Op    ID
	Funcs [dtype.Count]Func

	// Workspace gives the bytes that Call.Work must have; nil means that the operation needs none.
	Workspace func(*Call) uint64
}
