package libmpi

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cistern-ml/cistern/device/internal/osmem"
)

// Library is an MPI library that is loaded. It stays for the rest of the process.
type Library struct {
	Handles
	Values
	ABI  ABI
	File string // as it was opened

	functions [functionCount]uintptr
	out       uintptr // scratch memory for what calls return
}

// ErrNotFound is the error of Open when there is no library.
var ErrNotFound = errors.New("no MPI library was found")

// The names that libraries have, and the launchers' environment that says which of them the program was started with.
var (
	openMPIFiles = []string{"libmpi.so.40", "libmpi.so.80"}
	mpichFiles   = []string{"libmpich.so.12", "libmpi.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0"}
)

// Files are the names that Open tries, those of the launcher's own library first.
func Files() []string {
	files := append(append([]string{}, openMPIFiles...), mpichFiles...)
	if os.Getenv("OMPI_COMM_WORLD_SIZE") == "" && os.Getenv("PMI_SIZE") != "" {
		files = append(append([]string{}, mpichFiles...), openMPIFiles...)
	}
	return append(files, "libmpi.so")
}

// Open loads a library: the file, or if that is "" the first of Files that is there.
func Open(file string) (*Library, error) {
	files := []string{file}
	if file == "" {
		files = Files()
	}
	// UCX, below MPICH, takes the signals of memory faults away from Go as soon as it is loaded, if nobody tells it not to. A recovered nil
	// dereference would end the program then.
	if _, set := os.LookupEnv("UCX_ERROR_SIGNALS"); !set {
		if err := os.Setenv("UCX_ERROR_SIGNALS", ""); err != nil {
			return nil, err
		}
	}
	var tried []string
	for _, name := range files {
		address, err := dlopen(name)
		if err == nil {
			return load(name, address)
		}
		tried = append(tried, fmt.Sprintf("%s: %v", name, err))
	}
	if file != "" {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, strings.Join(tried, "; "))
	}
	return nil, fmt.Errorf("%w as %s", ErrNotFound, strings.Join(files, ", "))
}

// load finds out what was opened.
func load(file string, address uintptr) (*Library, error) {
	l := &Library{File: file, ABI: MPICH}
	switch {
	case dlsym(address, "ompi_mpi_comm_world") != 0:
		l.ABI = OpenMPI
	case dlsym(address, "MPI_Abi_get_version") != 0 && strings.Contains(file, "abi"):
		l.ABI = MPI5
	}
	l.Values = values[l.ABI]
	for _, h := range handles {
		at := h.field(&l.Handles)
		switch l.ABI {
		case OpenMPI:
			if *at = dlsym(address, h.variable); *at == 0 {
				return nil, fmt.Errorf("%s has no %s", file, h.variable)
			}
		case MPICH:
			*at = h.mpich
		default:
			*at = h.mpi5
		}
	}
	for f, name := range functionNames {
		if l.functions[f] = dlsym(address, name); l.functions[f] == 0 {
			return nil, fmt.Errorf("%s has no %s", file, name)
		}
	}
	out, err := osmem.Alloc(osmem.PageSize())
	l.out = out
	return l, err
}
