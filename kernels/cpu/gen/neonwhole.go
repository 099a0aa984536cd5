package main

// Instructions of NEON on whole numbers of several sizes.

// arrangements are the names of vectors by the size of their elements: 1, 2, 4 and 8 bytes.
var arrangements = [...]string{"16b", "8h", "4s", "2d"}

// halfArrangements are those of half a vector.
var halfArrangements = [...]string{"8b", "4h", "2s", "1d"}

// integers is an instruction on whole numbers of a size, 0 to 3.
func (a *assembler) integers(name string, code uint32, size int, d, n, m vreg) {
	s := arrangements[size]
	a.word(code|uint32(size)<<22|uint32(m)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, s, n, s, m, s)
}

// integer is one of a single operand.
func (a *assembler) integer(name string, code uint32, size int, d, n vreg) {
	s := arrangements[size]
	a.word(code|uint32(size)<<22|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", name, d, s, n, s)
}

// shiftBy is a shift of elements of a size.
func (a *assembler) shiftBy(name string, size int, d, n vreg, by int) {
	bits := 8 << size
	code, distance := map[string]uint32{"shl": 0x4f005400, "ushr": 0x6f000400, "sshr": 0x4f000400}[name], 2*bits-by
	if name == "shl" {
		distance = bits + by
	}
	a.word(code|uint32(distance)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #%d", name, d, arrangements[size], n, arrangements[size], by)
}

// extend makes elements of the next size of the lower or the upper half.
func (a *assembler) extend(signed, upper bool, size int, d, n vreg) {
	name, code, from := "ushll", uint32(0x2f00a400), halfArrangements[size]
	if signed {
		name, code = "sshll", 0x0f00a400
	}
	if upper {
		name, code, from = name+"2", code|1<<30, arrangements[size]
	}
	a.word(code|uint32(8<<size)<<16|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s, #0", name, d, arrangements[size+1], n, from)
}

// shorten makes elements of a size of those of the next: xtn, sqxtn or sqxtun, into the lower half or the upper one.
func (a *assembler) shorten(name string, upper bool, size int, d, n vreg) {
	code, to := map[string]uint32{"xtn": 0x0e212800, "sqxtn": 0x0e214800, "sqxtun": 0x2e212800}[name], halfArrangements[size]
	if upper {
		name, code, to = name+"2", code|1<<30, arrangements[size]
	}
	a.word(code|uint32(size)<<22|uint32(n)<<5|uint32(d), "%s v%d.%s, v%d.%s", name, d, to, n, arrangements[size+1])
}

// shiftOver is d = the bytes of n and m, which follow each other, from one of n on.
func (a *assembler) shiftOver(d, n, m vreg, from int) {
	a.word(0x6e000000|uint32(m)<<16|uint32(from)<<11|uint32(n)<<5|uint32(d), "ext v%d.16b, v%d.16b, v%d.16b, #%d", d, n, m, from)
}

// fill puts one element of n into all of d.
func (a *assembler) fill(size int, d, n vreg, element int) {
	place := uint32(element)<<(size+1) | 1<<size
	a.word(0x4e000400|place<<16|uint32(n)<<5|uint32(d), "dup v%d.%s, v%d.%c[%d]", d, arrangements[size], n, "bhsd"[size], element)
}

// put puts one element of n at a place of d.
func (a *assembler) put(size int, d vreg, to int, n vreg, from int) {
	a.word(0x6e000400|(uint32(to)<<(size+1)|1<<size)<<16|uint32(from)<<size<<11|uint32(n)<<5|uint32(d), "mov v%d.%c[%d], v%d.%[2]c[%d]", d, "bhsd"[size], to, n, from)
}
