package memprof

import (
	"encoding/binary"
	"time"

	"github.com/cistern-ml/cistern/memory"
)

// This file writes pprof's format: the protocol buffer message of github.com/google/pprof/proto/profile.proto. Only what is
// needed is here; the numbers are those of the fields there.

// message is a protocol buffer being written.
type message []byte

// integer writes a field with a varint; 0 is left out, being the default.
func (m *message) integer(field int, n int64) {
	if n != 0 {
		*m = binary.AppendUvarint(*m, uint64(field)<<3)
		*m = binary.AppendUvarint(*m, uint64(n))
	}
}

// bytes writes a field with a length: a text, a message, or packed numbers.
func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

// packed writes a field with a list of numbers.
func (m *message) packed(field int, list []int64) {
	var b []byte
	for _, n := range list {
		b = binary.AppendUvarint(b, uint64(n))
	}
	m.bytes(field, b)
}

// profile is a Profile message being written. Texts, functions and locations are written once each.
type profile struct {
	body      message
	texts     map[string]int64
	functions map[function]int64
	locations map[memory.Frame]int64
	strings   []string // by number
}

type function struct{ name, file string }

type valueType struct{ kind, unit string }

func newEncoder(now time.Time) *profile {
	p := &profile{texts: map[string]int64{}, functions: map[function]int64{}, locations: map[memory.Frame]int64{}}
	p.text("") // must be the first
	for _, t := range sampleTypes {
		p.body.bytes(1, p.valueType(t))
	}
	p.mapping()
	p.body.integer(9, now.UnixNano())
	p.body.bytes(11, p.valueType(valueType{"space", "bytes"}))
	p.body.integer(12, 1)
	p.body.integer(14, p.text(sampleTypes[inuseSpace].kind))
	return p
}

// encode returns the message. The texts come last, when all are known.
func (p *profile) encode() []byte {
	for _, s := range p.strings {
		p.body.bytes(6, []byte(s))
	}
	return p.body
}

// text returns the number of a text.
func (p *profile) text(s string) int64 {
	n, ok := p.texts[s]
	if !ok {
		n = int64(len(p.strings))
		p.texts[s] = n
		p.strings = append(p.strings, s)
	}
	return n
}

func (p *profile) valueType(t valueType) []byte {
	var m message
	m.integer(1, p.text(t.kind))
	m.integer(2, p.text(t.unit))
	return m
}

// mapping names the program, and tells pprof that everything is symbolised already.
func (p *profile) mapping() {
	var m message
	m.integer(1, 1)
	m.integer(5, p.text(programName()))
	for field := 7; field <= 10; field++ { // has functions, file names, line numbers, inlined frames
		m.integer(field, 1)
	}
	p.body.bytes(3, m)
}

// add writes a row.
func (p *profile) add(r *sample) {
	var m message
	var stack []int64
	for _, f := range r.frames {
		stack = append(stack, p.location(f))
	}
	m.packed(1, stack)
	m.packed(2, r.values[:])
	for _, l := range []valueType{{"state", r.labels.state}, {"pool", r.labels.pool}, {"pool_id", r.labels.poolID}} {
		if l.unit != "" {
			var label message
			label.integer(1, p.text(l.kind))
			label.integer(2, p.text(l.unit))
			m.bytes(3, label)
		}
	}
	var stream message
	stream.integer(1, p.text("stream"))
	stream.integer(3, r.labels.stream)
	stream.integer(4, p.text("id"))
	m.bytes(3, stream)
	p.body.bytes(2, m)
}

// location returns the number of a frame.
func (p *profile) location(f memory.Frame) int64 {
	id, ok := p.locations[f]
	if ok {
		return id
	}
	id = int64(len(p.locations) + 1)
	p.locations[f] = id
	var line, m message
	line.integer(1, p.function(function{f.Name, f.Filename}))
	line.integer(2, int64(f.Line))
	m.integer(1, id)
	m.integer(2, 1)
	m.integer(3, id) // in place of an address, so that pprof does not take two for one
	m.bytes(4, line)
	p.body.bytes(4, m)
	return id
}

func (p *profile) function(f function) int64 {
	id, ok := p.functions[f]
	if ok {
		return id
	}
	id = int64(len(p.functions) + 1)
	p.functions[f] = id
	var m message
	m.integer(1, id)
	m.integer(2, p.text(f.name))
	m.integer(3, p.text(f.name))
	m.integer(4, p.text(f.file))
	p.body.bytes(5, m)
	return id
}
