package main

import (
	"encoding/json"
	"io"
)

// started is what one process found, as far as it came.
type started struct {
	Name    string    // of the device
	Context float64   // milliseconds until the device had copied something
	Modules []*module // in the order of the process's arguments
}

// module is one that was loaded, as far as it was.
type module struct {
	Name     string
	Bytes    int // of PTX
	Count    int // kernels in it
	Kernels  []*kernel
	Failures []*failure

	loading string // the kernel that is being loaded
}

// kernel is one that was loaded. Its JSON is part of the numbers.
type kernel struct {
	Name       string  `json:"name"`
	Ms         float64 `json:"ms"` // until its attributes were known
	Registers  int     `json:"registers"`
	Shared     int     `json:"shared"` // bytes, of a block
	Local      int     `json:"local"`  // bytes, of a thread
	MaxThreads int     `json:"max_threads"`
}

// failure is a kernel, or a whole module, that did not load.
type failure struct {
	Process string `json:"process"` // first, next or one: see report
	Module  string `json:"module"`
	Kernel  string `json:"kernel,omitempty"` // "" if it concerns all of the module
	Error   string `json:"error"`
}

// line is what a process writes as soon as it knows it: one of its fields. A process that ends early has said how far it came.
type line struct {
	Device  string   `json:"device,omitempty"`
	Start   float64  `json:"start,omitempty"` // with Device
	Module  string   `json:"module,omitempty"`
	Bytes   int      `json:"bytes,omitempty"`   // with Module
	Count   int      `json:"count,omitempty"`   // with Module
	Loading string   `json:"loading,omitempty"` // a kernel, before it is
	Kernel  *kernel  `json:"kernel,omitempty"`
	Failure *failure `json:"failure,omitempty"` // of the module before it, without its name
}

// read adds the lines of a process up. A line that is cut off is the end.
func read(r io.Reader) *started {
	s, lines := &started{}, json.NewDecoder(r)
	for {
		var l line
		if lines.Decode(&l) != nil {
			return s
		}
		s.add(&l)
	}
}

func (s *started) add(l *line) {
	if l.Device != "" {
		s.Name, s.Context = l.Device, l.Start
	}
	if l.Module != "" {
		s.Modules = append(s.Modules, &module{Name: l.Module, Bytes: l.Bytes, Count: l.Count})
	}
	m := s.last()
	if m == nil {
		return
	}
	if l.Loading != "" {
		m.loading = l.Loading
		return
	}
	if l.Kernel != nil {
		m.Kernels = append(m.Kernels, l.Kernel)
		m.loading = ""
	}
	if l.Failure != nil {
		l.Failure.Module = m.Name
		m.Failures = append(m.Failures, l.Failure)
		m.loading = ""
	}
}

// last is the module that the process came to, or nil.
func (s *started) last() *module {
	if len(s.Modules) == 0 {
		return nil
	}
	return s.Modules[len(s.Modules)-1]
}

func (m *module) ms() (all, longest float64) {
	for _, k := range m.Kernels {
		all, longest = all+k.Ms, max(longest, k.Ms)
	}
	return all, longest
}
