package memprof

import (
	"time"

	"github.com/google/pprof/profile"

	"github.com/cistern-ml/cistern/memory"
)

// encoder makes a profile. Functions and locations are in it once each.
type encoder struct {
	p         *profile.Profile
	functions map[function]*profile.Function
	locations map[memory.Frame]*profile.Location
}

type function struct{ name, file string }

func newEncoder(now time.Time) *encoder {
	program := &profile.Mapping{ID: 1, File: programName(), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
	types := sampleTypes()
	return &encoder{
		p: &profile.Profile{SampleType: types, DefaultSampleType: types[inuseSpace].Type, Mapping: []*profile.Mapping{program},
			TimeNanos: now.UnixNano(), PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1},
		functions: map[function]*profile.Function{}, locations: map[memory.Frame]*profile.Location{},
	}
}

// add writes a row.
func (e *encoder) add(r *sample) {
	s := &profile.Sample{Value: r.values[:], Label: map[string][]string{}, NumLabel: map[string][]int64{"stream": {r.labels.stream}},
		NumUnit: map[string][]string{"stream": {"id"}}}
	for key, value := range map[string]string{"state": r.labels.state, "pool": r.labels.pool, "pool_id": r.labels.poolID,
		"op": operationName(r.labels.by), "module": r.labels.by.Module} {
		if value != "" {
			s.Label[key] = []string{value}
		}
	}
	for i, f := range r.frames {
		if i == 0 && r.labels.by.Name != "" {
			f.Name = operationName(r.labels.by) // without the module, so that modules add up
		}
		s.Location = append(s.Location, e.location(f))
	}
	e.p.Sample = append(e.p.Sample, s)
}

// operationName is that of a pass of an operation.
func operationName(o memory.Operation) string {
	if o.Backward {
		return o.Name + " backward"
	}
	return o.Name
}

func (e *encoder) location(f memory.Frame) *profile.Location {
	if l := e.locations[f]; l != nil {
		return l
	}
	id := uint64(len(e.p.Location) + 1)
	l := &profile.Location{ID: id, Mapping: e.p.Mapping[0], Address: id, // an address of its own, so that pprof does not take two for one
		Line: []profile.Line{{Function: e.function(function{f.Name, f.Filename}), Line: int64(f.Line)}}}
	e.locations[f], e.p.Location = l, append(e.p.Location, l)
	return l
}

func (e *encoder) function(f function) *profile.Function {
	if known := e.functions[f]; known != nil {
		return known
	}
	known := &profile.Function{ID: uint64(len(e.p.Function) + 1), Name: f.name, SystemName: f.name, Filename: f.file}
	e.functions[f], e.p.Function = known, append(e.p.Function, known)
	return known
}
