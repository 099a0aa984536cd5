package main

import "fmt"

// Conversions, signs and single elements.

// partial loads so many bytes.
func (t *translation) partial(arg string, bytes int) vreg {
	if n, _, ok := vectorOf(arg); ok {
		return t.vectors[n][0]
	}
	r := t.temp()
	t.line("%s %s, F%d", map[int]string{4: "FMOVS", 8: "FMOVD", 16: "FMOVQ"}[bytes], t.memory(arg).offset(0), r)
	return r
}

// extendAll makes elements of another size of the lower ones of a vector.
func (t *translation) extendAll(s statement, d [2]vreg, large, signed bool, from, to int) {
	bytes := 16 >> (to - from)
	if large {
		bytes *= 2
	}
	if bytes < 4 {
		refuse("%s of %d bytes", s.op, bytes)
	}
	r := t.partial(s.args[0], bytes)
	for size := from; size < to-1; size++ {
		next := t.temp()
		t.extend(signed, false, size, next, r)
		r = next
	}
	if !large {
		t.extend(signed, false, to-1, d[0], r)
		return
	}
	if d[0] == r {
		t.extend(signed, true, to-1, d[1], r)
		t.extend(signed, false, to-1, d[0], r)
		return
	}
	t.extend(signed, false, to-1, d[0], r)
	t.extend(signed, true, to-1, d[1], r)
}

// fromHalf converts elements to those of twice their size.
func (t *translation) fromHalf(s statement, d [2]vreg, large bool, convert func(d, n vreg, upper bool)) {
	bytes := 8
	if large {
		bytes = 16
	}
	r := t.partial(s.args[0], bytes)
	switch {
	case !large:
		convert(d[0], r, false)
	case d[0] == r:
		convert(d[1], r, true)
		convert(d[0], r, false)
	default:
		convert(d[0], r, false)
		convert(d[1], r, true)
	}
}

// toHalf is the reverse, of a whole vector or of half of one.
func (t *translation) toHalf(s statement, arg string, large bool, d [2]vreg, convert func(d, n vreg, upper bool)) {
	from, last := t.operand(arg, large), s.args[len(s.args)-1]
	to := t.temp()
	convert(to, from[0], false)
	if large {
		convert(to, from[1], true)
	}
	switch {
	case !isMemory(last):
		t.move(d[0], to)
	case large:
		t.line("FMOVQ F%d, %s", to, t.memory(last).offset(0))
	default:
		t.line("FMOVD F%d, %s", to, t.memory(last).offset(0))
	}
}

// loadMasked loads the elements whose sign is set in a mask, one by one, and zeros.
func (t *translation) loadMasked(s statement, d [2]vreg, large bool) {
	if !isMemory(s.args[0]) || !large {
		refuse("%s other than a load of 32 bytes", s.op)
	}
	m := t.memory(s.args[0])
	n, _, _ := vectorOf(s.args[1])
	for half, r := range d {
		t.zero(r)
		for i := range 4 {
			t.labels++
			t.line("VMOV V%d.S[%d], R%d", t.vectors[n][half], i, scratch)
			t.line("TBZ $31, R%d, unset%d", scratch, t.labels)
			t.line("ADD $%d, R%d, R%d", m.disp+16*half+4*i, m.base, scratch)
			t.line("VLD1 (R%d), V%d.S[%d]", scratch, r, i)
			t.label(fmt.Sprintf("unset%d", t.labels))
		}
	}
}

// signs puts the sign bits of elements into a general register.
func (t *translation) signs(s statement, size int) {
	n, large, _ := vectorOf(s.args[0])
	from, to := t.vectors[n], general[s.args[1]]
	t.line("MOVD $0, R%d", to)
	perHalf := 16 >> size
	halves := 1
	if large {
		halves = 2
	}
	for half := range halves {
		for i := range perHalf {
			t.line("VMOV V%d.%c[%d], R%d", from[half], "BHSD"[size], i, scratch)
			t.line("LSR $%d, R%d, R%d", 8<<size-1, scratch, scratch)
			t.line("ORR R%d<<%d, R%d, R%d", scratch, half*perHalf+i, to, to)
		}
	}
	t.written(s.args[1])
}

// testBits sets the flags by whether a vector has bits.
func (t *translation) testBits(s statement, _ [2]vreg, _ bool) {
	if s.args[0] != s.args[1] {
		refuse("VPTEST of two registers")
	}
	n, _, _ := vectorOf(s.args[0])
	v, r := t.vectors[n], t.temp()
	t.three(vOrr, false, r, v[0], v[1])
	t.line("VMOV V%d.D[0], R%d", r, scratch)
	t.line("VMOV V%d.D[1], R%d", r, scratch2)
	t.line("ORR R%d, R%d, R%[1]d", scratch, scratch2)
	t.line("CMP $0, R%d", scratch)
}

// extract stores one element.
func (t *translation) extract(s statement, size, store string) {
	n, _, _ := vectorOf(s.args[1])
	t.line("VMOV V%d.%s[%d], R%d", t.vectors[n][0], size, number64(s.args[0]), scratch)
	if r, ok := general[s.args[2]]; ok {
		t.line("MOVD R%d, R%d", scratch, r)
		t.written(s.args[2])
		return
	}
	t.line("%s R%d, %s", store, scratch, t.memory(s.args[2]).offset(0))
}

// scalar computes with the lowest element.
func (t *translation) scalar(s statement, name string, d [2]vreg) {
	k, _, _ := vectorOf(s.args[1])
	var from vreg
	if n, _, ok := vectorOf(s.args[0]); ok {
		from = t.vectors[n][0]
	} else {
		from = t.temp()
		t.line("FMOV%s %s, F%d", name[len(name)-1:], t.memory(s.args[0]).offset(0), from)
	}
	t.line("%s F%d, F%d, F%d", name, from, t.vectors[k][0], d[0])
}
