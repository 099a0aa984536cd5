package cpu

import "syscall"

// allowTiles asks the system for the registers of AMX, which programs have that ask: signals and switches of threads that use them take 8 KB more. It is for all
// threads, and for good. A system that does not know of them refuses.
func allowTiles() bool {
	const request, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, request, tileData, 0)
	return errno == 0
}
