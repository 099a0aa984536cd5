package driver

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// An entry of a list of processes begins with the process's number, 4 bytes of padding and its memory. What follows depends on
// the driver and not on the function's name: nothing, two numbers of instances (nvmlProcessInfo_v2_t, nearly all drivers), or
// these and another number (535.43 to 535.86). So there is room for the longest, and the list itself tells how long they are:
// the library writes nothing behind the last entry.
const (
	nvmlShortest = 16
	nvmlUsual    = 24
	nvmlLongest  = 32
	nvmlMark     = 0xA5 // what is there before; no entry ends with it
)

// processInfos calls a function that lists processes until its list has room. Names are for others to find.
func processInfos(list, device uintptr) ([]Process, error) {
	room := 32
	for {
		count, infos := make([]byte, 4), bytes.Repeat([]byte{nvmlMark}, room*nvmlLongest)
		binary.NativeEndian.PutUint32(count, uint32(room))
		r := foreign(func(b *Batch) { b.AddForeign(list, device, b.Bytes(count), b.Bytes(infos)) })
		n := int(binary.NativeEndian.Uint32(count))
		switch {
		case r == 0:
			return readInfos(infos, min(n, room)), nil
		case r != nvmlInsufficientSize || room > 1<<16:
			return nil, fmt.Errorf("nvmlDeviceGetRunningProcesses: %d", r)
		}
		room = 2 * max(n, room) // others may start meanwhile
	}
}

// readInfos reads n entries.
func readInfos(infos []byte, n int) []Process {
	stride := infoStride(infos, n)
	list := make([]Process, n)
	for i := range list {
		entry := infos[i*stride:]
		list[i] = Process{PID: int(binary.NativeEndian.Uint32(entry)), Used: binary.NativeEndian.Uint64(entry[8:])}
		if list[i].Used == nvmlUnknown {
			list[i].Used = 0
		}
	}
	return list
}

// infoStride is how many bytes each of n entries has.
func infoStride(infos []byte, n int) int {
	written := len(infos)
	for written > 0 && infos[written-1] == nvmlMark {
		written--
	}
	for _, stride := range [...]int{nvmlShortest, nvmlUsual} {
		if written <= n*stride {
			return stride
		}
	}
	return nvmlLongest
}
