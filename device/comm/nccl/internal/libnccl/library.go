package libnccl

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/cistern-ml/cistern/device/internal/sharedlib"
)

// LibraryVariable is the environment variable that names the library: a file, or folders, separated as in PATH.
const LibraryVariable = "CISTERN_NCCL_LIBRARY"

// file is the library's name in all versions.
const file = "libnccl.so.2"

// Library is NCCL, loaded. It stays for the rest of the process.
type Library struct {
	Path    string
	Version int // 22203 for 2.22.3

	funcs [numFuncs]uintptr
}

// ErrNotFound is the error of Open when there is no library.
var ErrNotFound = errors.New("no NCCL library was found")

// Open loads the library: the file, or if that is "" the first of the usual places.
func Open(name string) (*Library, error) {
	names, passed := []string{name}, []string(nil)
	if name == "" {
		names, passed = sharedlib.Candidates(LibraryVariable, []string{file}, "nccl")
	}
	var tried []string
	for _, name := range names {
		handle, err := dlopen(name)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		return load(name, handle) // one that is too old is told of, and not passed over for another
	}
	return nil, fmt.Errorf("%w; tried: %s", ErrNotFound, strings.Join(append(tried, passed...), "; "))
}

// load looks the functions up, and asks for the version.
func load(name string, handle uintptr) (*Library, error) {
	l := &Library{Path: name}
	for f := range numFuncs {
		l.funcs[f] = dlsym(handle, symbols[f])
	}
	if l.funcs[GetVersion] == 0 {
		return nil, fmt.Errorf("%s has no function %v: it is not NCCL", name, GetVersion)
	}
	version := onHeap[int32]()
	r := Result(int32(call(l.funcs[GetVersion], uintptr(unsafe.Pointer(version)))))
	runtime.KeepAlive(version)
	if r != Success {
		return nil, fmt.Errorf("%s: %v: %v", name, GetVersion, r)
	}
	l.Version = int(*version)
	if l.Version < MinVersion {
		return nil, fmt.Errorf("%s is version %s, and %s is the oldest that will do", name, VersionString(l.Version), VersionString(MinVersion))
	}
	for f := range lastRequired + 1 {
		if l.funcs[f] == 0 {
			return nil, fmt.Errorf("%s, version %s, has no function %v", name, VersionString(l.Version), f)
		}
	}
	return l, nil
}

// Has reports whether the library has a function.
func (l *Library) Has(f Func) bool { return l.funcs[f] != 0 }

// Address is that of a function.
func (l *Library) Address(f Func) uintptr { return l.funcs[f] }

// onHeap is a new value that a function of the library may write. The compiler would put one whose address is only a number on the goroutine's stack, which may grow, and so move, on the way
// to the call: then the function writes where nothing is any more. Not inlined, as what a function returns lies on the heap.
//
//go:noinline
func onHeap[T any]() *T { return new(T) }

// NewOut is a number that a function writes.
func NewOut() *int32 { return onHeap[int32]() }

// Out is the address of a number that a function writes, of NewOut. It must be kept alive until the call is over.
func Out(p *int32) uintptr { return uintptr(unsafe.Pointer(p)) }

// UniqueID makes the name of a new group.
func (l *Library) UniqueID() (id [UniqueIDBytes]byte, r Result) {
	out := onHeap[[UniqueIDBytes]byte]()
	r = Result(int32(call(l.funcs[GetUniqueID], uintptr(unsafe.Pointer(out)))))
	runtime.KeepAlive(out)
	return *out, r
}

// Explain is what the library says of a result, and of a communicator's last error if it has one.
func (l *Library) Explain(r Result, comm uintptr) string {
	text := r.String()
	if said := text0(call(l.funcs[GetErrorString], uintptr(uint32(r)))); said != "" {
		text += ": " + said
	}
	if comm != 0 {
		if last := text0(call(l.funcs[GetLastError], comm)); last != "" {
			text += "; " + last
		}
	}
	return text
}

// most is how long a text may be.
const most = 1024

// text0 is a string of C's in one line.
func text0(at uintptr) string {
	if at == 0 {
		return ""
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the library's
	n := 0
	for n < most && *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return strings.Join(strings.Fields(string(unsafe.Slice((*byte)(p), n))), " ")
}

// Init is a call that makes a communicator: the function and its arguments. out is where the communicator's address is written.
type Init struct {
	Func uintptr
	Args []uintptr

	id     *[UniqueIDBytes]byte
	config *Config
	out    *uintptr
}

// Init prepares the call for a rank of size. The id, 128 bytes by value, goes the way of C's calling convention; since 2.23 there is a function that
// takes its address.
func (l *Library) Init(size, rank int, id [UniqueIDBytes]byte) *Init {
	i := &Init{id: &id, config: NonBlocking(l.Version), out: new(uintptr)}
	out, config, n, r := uintptr(unsafe.Pointer(i.out)), uintptr(unsafe.Pointer(i.config)), uintptr(uint32(size)), uintptr(uint32(rank))
	switch {
	case l.Version >= scalableInit && l.Has(CommInitRankScalable):
		i.Func, i.Args = l.funcs[CommInitRankScalable], []uintptr{out, n, r, 1, uintptr(unsafe.Pointer(i.id)), config}
	case runtime.GOARCH == "amd64": // a large struct is copied to the stack, behind the six arguments in registers
		i.Func, i.Args = l.funcs[CommInitRankConfig], []uintptr{out, n, r, config, 0, 0}
		for at := 0; at < UniqueIDBytes; at += 8 {
			i.Args = append(i.Args, *(*uintptr)(unsafe.Pointer(&i.id[at])))
		}
	default: // arm64: a copy's address
		i.Func, i.Args = l.funcs[CommInitRankConfig], []uintptr{out, n, uintptr(unsafe.Pointer(i.id)), r, config}
	}
	return i
}

// Comm is the communicator's address, after the call.
func (i *Init) Comm() uintptr {
	runtime.KeepAlive(i.id)
	runtime.KeepAlive(i.config)
	return *i.out
}

// VersionString is a version as people write it.
func VersionString(version int) string {
	if version < 10000 { // until 2.8
		return fmt.Sprintf("%d.%d.%d", version/1000, version/100%10, version%100)
	}
	return fmt.Sprintf("%d.%d.%d", version/10000, version/100%100, version%100)
}
