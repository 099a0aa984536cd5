package main

import (
	"fmt"
	"regexp"
	"strings"
)

// What package kerneltest has of a kernel.

var incoming = regexp.MustCompile(`\bg\b`)

// Expected is the result of the reference, of the list x and the scalars f.
func (k kernel) Expected() string {
	e := k.inList(k.Reference, "f")
	switch {
	case k.Class.Bool:
		return "truth(" + e + ")"
	case strings.HasPrefix(k.Reference, "bounded("):
		return e
	case k.Gradient && !incoming.MatchString(k.Reference):
		return "scaled(x[0]*(" + e + "), 4*x[0])"
	case k.Scale != "":
		return "scaled(" + e + ", " + k.inList(k.Scale, "f") + ")"
	}
	return "exact(" + e + ")"
}

// ExpectedWhole is the result for integers, of the lists x and i.
func (k kernel) ExpectedWhole() string {
	e := k.WholeReference
	if e == "" {
		e = k.Reference
	}
	e = k.inList(e, "i")
	if k.Class.Bool {
		return "truth(" + e + ").i"
	}
	return e
}

// inList makes an expression of elements and scalars one of lists.
func (k kernel) inList(e, scalars string) string {
	for i, name := range k.Scalars {
		e = replaced(e, name, fmt.Sprintf("%s[%d]", scalars, i))
	}
	for i, name := range k.Operands {
		e = replaced(e, name, fmt.Sprintf("x[%d]", i))
	}
	return e
}

// Tried are the scalars that kernels are tried with.
func (k kernel) Tried() (list []string) {
	for i, v := range k.Op.Test.Scalars {
		s := "{f: floats8(" + v + ")"
		if i < len(k.Op.Test.Wholes) {
			s += ", i: ints8(" + k.Op.Test.Wholes[i] + ")"
		}
		list = append(list, s+"}")
	}
	return list
}
