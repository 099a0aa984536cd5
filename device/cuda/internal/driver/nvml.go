package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// NVMLVariable is the environment variable that names the management library to open instead of the system's.
const NVMLVariable = "CISTERN_NVML_LIBRARY"

// NVML is NVIDIA's management library, which comes with the driver. It knows which processes hold a GPU's memory.
type NVML struct {
	byUUID uintptr
	lists  []uintptr // of processes: those that compute, those that draw
	name   uintptr
}

// Process is one that holds memory of a GPU.
type Process struct {
	PID  int
	Name string // "" if the library does not say
	Used uint64 // bytes; 0 if the library does not say, as on Windows
}

// Numbers of nvml.h.
const (
	nvmlInsufficientSize = 7
	nvmlNameBytes        = 512
	nvmlUnknown          = ^uint64(0)
)

// runningProcesses are the functions that list processes: those that compute, and those that draw. The second name of each is
// that of older drivers.
var runningProcesses = [2][2]string{
	{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
	{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"},
}

// LoadNVML opens the management library and initialises it, for the rest of the process.
func LoadNVML() (*NVML, error) {
	var tried []string
	for _, name := range managementLibraries() {
		handle, err := OpenLibrary(name)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		return newNVML(name, handle)
	}
	return nil, fmt.Errorf("no NVIDIA management library found; tried: %s", strings.Join(tried, "; "))
}

// managementLibraries are the candidates, as for the driver.
func managementLibraries() []string {
	if set := os.Getenv(NVMLVariable); set != "" {
		return []string{set}
	}
	switch {
	case libraryName == "":
		return nil
	case runtime.GOOS == "windows":
		return []string{"nvml.dll", filepath.Join(os.Getenv("ProgramFiles"), "NVIDIA Corporation", "NVSMI", "nvml.dll")}
	}
	const file = "libnvidia-ml.so.1"
	names := []string{file}
	for _, dir := range libraryFolders {
		if path := filepath.Join(dir, file); isFile(path) {
			names = append(names, path)
		}
	}
	return names
}

func newNVML(path string, handle uintptr) (*NVML, error) {
	n := &NVML{byUUID: Symbol(handle, "nvmlDeviceGetHandleByUUID"), name: Symbol(handle, "nvmlSystemGetProcessName")}
	for _, names := range runningProcesses {
		list := Symbol(handle, names[0])
		if list == 0 {
			list = Symbol(handle, names[1]) // drivers from 450 on; those of 535.98 had only this one again
		}
		n.lists = append(n.lists, list)
	}
	start := Symbol(handle, "nvmlInit_v2")
	if start == 0 || n.byUUID == 0 || n.name == 0 || n.lists[0] == 0 || n.lists[1] == 0 {
		return nil, errors.New(path + " has not the functions of a management library since driver 450")
	}
	if r := foreign(func(b *Batch) { b.AddForeign(start) }); r != 0 {
		return nil, fmt.Errorf("nvmlInit of %s: %d", path, r)
	}
	return n, nil
}

// foreign runs a batch of one call, and then reads what it left.
func foreign(add func(b *Batch), read ...func(b *Batch)) Result {
	b := (*Library)(nil).Batch()
	defer b.Release()
	add(b)
	_, r := b.Run()
	for _, f := range read {
		f(b)
	}
	return r
}

// Processes lists those that hold memory of the GPU, or the part of one, with this UUID, in no order.
func (n *NVML) Processes(uuid [16]byte) ([]Process, error) {
	device, err := n.device(uuid)
	if err != nil {
		return nil, err
	}
	var all []Process
	seen := map[int]bool{}
	for _, list := range n.lists {
		infos, err := processInfos(list, device)
		if err != nil {
			return nil, err
		}
		for _, p := range infos {
			if seen[p.PID] {
				continue // it computes and draws: the memory is the same
			}
			seen[p.PID] = true
			p.Name = n.nameOf(p.PID)
			all = append(all, p)
		}
	}
	return all, nil
}

// device is the library's handle. A UUID is that of a GPU or of a part of one, which is not to be seen from its bytes.
func (n *NVML) device(uuid [16]byte) (handle uintptr, err error) {
	text := fmt.Sprintf("%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	var r Result
	for _, kind := range []string{"GPU-", "MIG-"} {
		r = foreign(func(b *Batch) {
			b.AddForeign(n.byUUID, b.Bytes([]byte(kind+text+"\x00")), b.Out(0))
		}, func(b *Batch) { handle = uintptr(b.Value(0)) })
		if r == 0 {
			return handle, nil
		}
	}
	return 0, fmt.Errorf("nvmlDeviceGetHandleByUUID of GPU-%s: %d", text, r)
}

// nameOf is the name of a process, usually its path. A process of another user, or in another container, has none.
func (n *NVML) nameOf(pid int) string {
	name := make([]byte, nvmlNameBytes)
	if r := foreign(func(b *Batch) { b.AddForeign(n.name, uintptr(pid), b.Bytes(name), nvmlNameBytes-1) }); r != 0 {
		return ""
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	return string(name)
}
