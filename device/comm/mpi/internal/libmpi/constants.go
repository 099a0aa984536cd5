package libmpi

// ABI is a binary interface: how a library's handles look, and what its constants are.
type ABI uint8

// The binary interfaces.
const (
	OpenMPI ABI = iota + 1 // handles are addresses of the library's variables
	MPICH                  // handles are 32-bit numbers; also Intel MPI and MVAPICH
	MPI5                   // the standard's own: handles are small numbers of pointer size
)

// String is the name in errors.
func (a ABI) String() string {
	if a > MPI5 {
		a = 0
	}
	return [...]string{"no MPI", "Open MPI", "MPICH", "MPI 5 ABI"}[a]
}

// Handles are what C programs write as MPI_COMM_WORLD and so on.
type Handles struct {
	World, RequestNull, ErrorsReturn uintptr
	Byte, Float32, Float64, Int64    uintptr
	Sum, Max, Min                    uintptr
}

// handle is one of them in each interface.
type handle struct {
	name        string
	field       func(*Handles) *uintptr
	variable    string // of Open MPI
	mpich, mpi5 uintptr
}

var handles = []handle{
	{"MPI_COMM_WORLD", func(h *Handles) *uintptr { return &h.World }, "ompi_mpi_comm_world", 0x44000000, 0x101},
	{"MPI_REQUEST_NULL", func(h *Handles) *uintptr { return &h.RequestNull }, "ompi_request_null", 0x2c000000, 0x180},
	{"MPI_ERRORS_RETURN", func(h *Handles) *uintptr { return &h.ErrorsReturn }, "ompi_mpi_errors_return", 0x54000001, 0x143},
	{"MPI_BYTE", func(h *Handles) *uintptr { return &h.Byte }, "ompi_mpi_byte", 0x4c00010d, 0x247},
	{"MPI_FLOAT", func(h *Handles) *uintptr { return &h.Float32 }, "ompi_mpi_float", 0x4c00040a, 0x210},
	{"MPI_DOUBLE", func(h *Handles) *uintptr { return &h.Float64 }, "ompi_mpi_double", 0x4c00080b, 0x214},
	{"MPI_INT64_T", func(h *Handles) *uintptr { return &h.Int64 }, "ompi_mpi_int64_t", 0x4c00083a, 0x258},
	{"MPI_SUM", func(h *Handles) *uintptr { return &h.Sum }, "ompi_mpi_op_sum", 0x58000003, 0x21},
	{"MPI_MAX", func(h *Handles) *uintptr { return &h.Max }, "ompi_mpi_op_max", 0x58000001, 0x23},
	{"MPI_MIN", func(h *Handles) *uintptr { return &h.Min }, "ompi_mpi_op_min", 0x58000002, 0x22},
}

// Values are constants that are no handles.
type Values struct {
	InPlace      uintptr // MPI_IN_PLACE, an address
	StatusIgnore uintptr // MPI_STATUS_IGNORE, an address
	AnySource    int32
	AnyTag       int32
	Funneled     int32 // MPI_THREAD_FUNNELED
	ErrorString  int   // MPI_MAX_ERROR_STRING
	HandleBytes  int   // sizeof(MPI_Request)
}

var values = map[ABI]Values{
	OpenMPI: {InPlace: 1, StatusIgnore: 0, AnySource: -1, AnyTag: -1, Funneled: 1, ErrorString: 256, HandleBytes: 8},
	MPICH:   {InPlace: ^uintptr(0), StatusIgnore: 1, AnySource: -2, AnyTag: -1, Funneled: 1, ErrorString: 512, HandleBytes: 4},
	MPI5:    {InPlace: 1, StatusIgnore: 0, AnySource: -1, AnyTag: -2, Funneled: 1024, ErrorString: 512, HandleBytes: 8},
}
