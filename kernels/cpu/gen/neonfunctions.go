package main

import "path/filepath"

// writeNEON writes the functions of float32 and float64, and arithmetic, for arm64, with the lists in Go beside them.
func writeNEON(file string) error {
	a := &assembler{index: map[constant]int{}}
	all := functions("NEON")
	for _, p := range all {
		neonFunction(a, p, p.name+"NEON", "48", (*neonEmitter).pointers)
	}
	if err := a.finish(file, "vectorConstants"); err != nil {
		return err
	}
	return emitTable(filepath.Join(filepath.Dir(file), "functions_arm64.go"), "NEON", all)
}

// pointers loads the arguments of a function of vectorFunction's type.
func (e *neonEmitter) pointers() {
	e.line("MOVD n+0(FP), R0")
	for i, name := range []string{"dst", "a", "b", "c"}[:1+e.inputs()] {
		e.line("MOVD %s+%d(FP), R%d", name, 8+8*i, 1+i)
	}
	e.line("MOVD $vectorConstants<>(SB), R6")
	if e.p.scalars == 0 {
		return
	}
	e.line("MOVD s+40(FP), R5")
	for _, n := range e.p.nodes {
		if n.op != "scalar" {
			continue
		}
		at, form := 4*n.bits, "S4" // narrow ones before wide ones
		if e.p.wide {
			at, form = 16+8*n.bits, "D2"
		}
		r := e.take()
		e.line("ADD $%d, R5, R7", at)
		e.line("VLD1R (R7), [V%d.%s]", r, form)
		e.scalars[n] = r
	}
}
