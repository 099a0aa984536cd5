package libmpi

import (
	"encoding/binary"

	"github.com/cistern-ml/cistern/device/internal/osmem"
	"golang.org/x/sys/unix"
)

// keepSignalStack makes the signal handlers that MPI has installed run on the stack that Go has for them. MPICH's for SIGUSR1, by which its
// launcher tells ranks that another one has died, does not, and calls Go's handler in the end, which ends the program for that.
func (l *Library) keepSignalStack() {
	const (
		onStack  = 0x08000000 // SA_ONSTACK
		size     = 32         // of the kernel's struct sigaction: handler, flags, and what is only handed back
		maskSize = 8
	)
	action := osmem.Bytes(l.out, size)
	for signal := range uintptr(32) {
		if _, _, failed := unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, 0, l.out, maskSize, 0, 0); failed != 0 {
			continue // no such signal
		}
		handler, flags := binary.LittleEndian.Uint64(action), binary.LittleEndian.Uint64(action[8:])
		if handler <= 1 || flags&onStack != 0 { // the system's, or none
			continue
		}
		binary.LittleEndian.PutUint64(action[8:], flags|onStack)
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, signal, l.out, 0, maskSize, 0, 0) // what was just read can be set
	}
}
