package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// kernel is an operation of the kernels: one of the table, or one of its gradients.
type kernel struct {
	elementwise.Func
	ID, Name string // of Go, and of PyTorch's manner
	Operands []string
	Scalars  []string
	Class    class
	Spec     string

	Gradient bool
	From, To float64 // of what a gradient saved
	Op       elementwise.Op
}

// class is the types of a kernel.
type class struct {
	Types string // as the specification names them, and said in Words
	Words string
	Bool  bool   // the result is of bools
	Maps  string // the list of CUDA kernels that it is in
}

var (
	floatClass     = class{"floats", "Float types", false, "FLOAT"}
	numberClass    = class{"numbers", "Float and integer types", false, "NUMBER"}
	testClass      = class{"floats", "Float types; dst is Bool", true, "FLOAT"}
	conditionClass = class{"anything", "All types; dst is Bool", true, "ANY"}
	wholeClass     = class{"integers", "Integer types", false, "INTEGER"}
	boolClass      = class{"boolean", "Bool", false, "BOOL"}
)

func classOf(t elementwise.Types) class {
	return map[elementwise.Types]class{
		elementwise.ToFloat: floatClass, elementwise.OnlyFloats: floatClass, elementwise.Rounding: floatClass, elementwise.Numeric: numberClass, elementwise.Lifting: numberClass,

		elementwise.Tests: testClass, elementwise.Conditions: conditionClass, elementwise.Bools: boolClass, elementwise.Integers: wholeClass,
	}[t]
}

// operandsOf are the names of the inputs in expressions.
func operandsOf(o elementwise.Op) []string {
	switch {
	case o.Third != "":
		return []string{"a", "b", "c"}
	case o.Second != "":
		return []string{"a", "b"}
	}
	return []string{"a"}
}

// kernelsOf are the kernels of an operation: itself, and those of its gradients that have one.
func kernelsOf(o elementwise.Op) []kernel {
	inputs := operandsOf(o)
	k := kernel{Func: o.Func, ID: o.Name, Name: o.Torch, Operands: inputs, Scalars: o.Scalars, Class: classOf(o.Types), Spec: specOf(o), Op: o}
	switch o.Types {
	case elementwise.Numeric, elementwise.Lifting, elementwise.Conditions, elementwise.Bools, elementwise.Integers:
		k.Own = true
	}
	var list []kernel
	if k.CUDA != "" {
		list = append(list, k)
	}
	for i, g := range o.Gradients {
		if !hasKernel(g) {
			continue
		}
		operands, saved := append([]string{"g"}, inputs...), "the input"
		switch {
		case g.OfOutput:
			operands, saved = []string{"g", "a"}, "the result"
		case o.Second != "":
			saved = "the inputs a and b"
		}
		if g.From == g.To {
			g.From, g.To = o.Test.From, o.Test.To
		}
		list = append(list, kernel{
			Func: g.Func, ID: o.Name + gradSuffix(o, i), Name: o.Torch + "_backward" + map[bool]string{true: "_other"}[i == 1],
			Operands: operands, Scalars: o.Scalars, Class: floatClass, Spec: g.Formula + ", of the gradient g and " + saved,
			Gradient: true, From: g.From, To: g.To, Op: o,
		})
	}
	return list
}

// gradSuffix is what the name of the gradient by input i ends in: Grad, or GradU by the second input u.
func gradSuffix(o elementwise.Op, i int) string {
	if i == 0 {
		return "Grad"
	}
	return "Grad" + strings.ToUpper(o.Second)
}

// specOf is what the operation does, of its inputs a and b.
func specOf(o elementwise.Op) string {
	s := strings.TrimPrefix(o.Does, "is ")
	if o.More != "" {
		s += ". " + strings.TrimSuffix(o.More, ".")
	}
	s = wordT.ReplaceAllString(s, "a")
	if o.Second != "" {
		s = replaced(s, o.Second, "b")
	}
	if o.Third != "" {
		s = replaced(s, o.Third, "c")
	}
	if len(o.Scalars) > 0 {
		s += "; F is " + strings.Join(o.Scalars, ", ")
	}
	return s
}

// replaced puts a text in place of a name.
func replaced(s, name, by string) string {
	return regexp.MustCompile(`\b`+name+`\b`).ReplaceAllLiteralString(s, by)
}

// In is the letters of the views, and Out that of the result.
func (k kernel) In() string { return strings.Repeat("k", len(k.Operands)) }
func (k kernel) Out() string {
	if k.Class.Bool {
		return "b"
	}
	return "k"
}

// Integers reports whether there are kernels for integers.
func (k kernel) Integers() bool {
	return slices.Contains([]string{"NUMBER", "ANY", "INTEGER"}, k.Class.Maps)
}

// Floats reports whether there are kernels for floating-point types.
func (k kernel) Floats() bool { return k.Class.Maps != "BOOL" && k.Class.Maps != "INTEGER" }
