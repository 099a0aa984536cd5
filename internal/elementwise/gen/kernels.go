package main

import (
	"fmt"
	"regexp"
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
	boolClass      = class{"boolean", "Bool", false, "BOOL"}
)

func classOf(t elementwise.Types) class {
	return map[elementwise.Types]class{
		elementwise.ToFloat: floatClass, elementwise.OnlyFloats: floatClass, elementwise.Rounding: floatClass, elementwise.Numeric: numberClass, elementwise.Lifting: numberClass,

		elementwise.Tests: testClass, elementwise.Conditions: conditionClass, elementwise.Bools: boolClass,
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
	case elementwise.Numeric, elementwise.Lifting, elementwise.Conditions, elementwise.Bools:
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
func (k kernel) Integers() bool { return k.Class.Maps == "NUMBER" || k.Class.Maps == "ANY" }

// Fn is the name of its function of package cpu.
func (k kernel) Fn() string { return lower(k.ID) }

// loop is a function of package cpu.
type loop struct {
	kernel
	Name, Params string // and its type parameters
	Type         string // of elements
	Expr         string
	Own          bool
	Values       string // how its scalars become values of a Go type, each with %d for its place
}

// Loops are the functions that are generated of a kernel.
func (k kernel) Loops() []loop {
	if k.Loop != "" {
		return nil
	}
	floats := loop{kernel: k, Name: k.Fn(), Params: "[T float]", Type: "T", Expr: k.Go, Own: k.Own, Values: "call.F[%d]"}
	if k.Own {
		floats.Values = "T(call.F[%d])"
	}
	list := []loop{floats}
	switch {
	case k.Class.Maps == "BOOL":
		list[0].Params, list[0].Type = "", "uint8"
	case k.Narrow != "":
		list[0].Params, list[0].Type, list[0].Name = "", "float64", k.Fn()+"Float64"
		narrow := list[0]
		narrow.Type, narrow.Name, narrow.Expr = "float32", k.Fn()+"Float32", k.Narrow
		list = []loop{narrow, list[0]}
	case k.Integers() && k.Whole == "" && k.WholeLoop == "":
		list[0].Params, list[0].Values = "[T number]", "scalar[T](call.F[%[1]d], call.I[%[1]d])"
	}
	if k.Whole != "" {
		list = append(list, loop{kernel: k, Name: k.Fn() + "Whole", Params: "[T integer]", Type: "T", Expr: k.Whole, Own: true, Values: "T(call.I[%d])"})
	}
	return list
}

// Element is the value of one place: an expression of slices, whose operands get the index [i], converted.
func (l loop) Element() string {
	e := l.Expr
	for _, name := range l.Operands {
		to := name + "[i]"
		if !l.Own && l.Type != "float64" {
			to = "float64(" + to + ")"
		}
		e = replaced(e, name, to)
	}
	switch {
	case l.Class.Bool:
		return "truth(" + e + ")"
	case l.Own || l.Type == "float64":
		return e
	}
	return l.Type + "(" + e + ")"
}

// Result is the type of the results.
func (l loop) Result() string {
	if l.Class.Bool {
		return "uint8"
	}
	return l.Type
}

// Taken are the values of the scalars.
func (l loop) Taken() string {
	values := make([]string, len(l.Scalars))
	for i := range values {
		values[i] = fmt.Sprintf(l.Values, i)
	}
	return strings.Join(values, ", ")
}

// Row are the types of a row of package cpu, with their functions.
func (k kernel) Row() string {
	arity := []string{"one", "two", "three"}[len(k.Operands)-1]
	if k.Class.Bool {
		arity += "8"
	}
	of := func(name string, types ...string) string {
		var fs []string
		for _, t := range types {
			f := name
			switch {
			case t == "float32" && k.Float32 != "":
				f = k.Float32
			case k.Narrow != "" && k.Loop == "":
				f += map[string]string{"float32": "Float32", "float64": "Float64"}[t]
			default:
				f += "[" + t + "]"
			}
			fs = append(fs, arity+"("+f+")")
		}
		return strings.Join(fs, ", ")
	}
	name := k.Fn()
	if k.Loop != "" {
		name = k.Loop
	}
	if k.Class.Maps == "BOOL" {
		return "boolean(" + arity + "(" + name + "))"
	}
	parts := []string{"floats(" + of(name, "float32", "float64") + ")"}
	if k.Integers() {
		whole := name
		if k.Whole != "" {
			whole = k.Fn() + "Whole"
		} else if k.WholeLoop != "" {
			whole = k.WholeLoop
		}
		parts = append(parts, "integers("+of(whole, "int64", "int32", "uint8")+")")
	}
	if k.Class.Maps == "ANY" {
		parts = append(parts, "boolean("+of(name, "uint8")+")")
	}
	if k.Bool != "" {
		parts = append(parts, "boolean("+arity+"("+k.Bool+"))")
	}
	return strings.Join(parts, ", ")
}

// CUDAOf makes operands and scalars of the CUDA expression those of the macros: a, b and c in the order of inputs, s and t.
func (k kernel) CUDAOf() string {
	e := k.CUDA
	for i := len(k.Operands) - 1; i >= 0; i-- {
		e = replaced(e, k.Operands[i], string("abc"[i]))
	}
	for i, name := range k.Scalars {
		e = replaced(e, name, string("st"[i]))
	}
	return e
}

// Macro declares its CUDA function.
func (k kernel) Macro() string {
	if k.Class.Bool {
		return []string{"TEST", "COMPARE"}[len(k.Operands)-1]
	}
	return []string{"UNARY", "BINARY", "TERNARY"}[len(k.Operands)-1]
}

// calls finds divisions and calls of functions, which take longer than loads; those of templates, with a type, do not.
var calls = regexp.MustCompile(`/|[a-z0-9_]\(`)

// Computes reports whether it takes longer than loads do.
func (k kernel) Computes() bool { return !k.Quick && calls.MatchString(k.CUDA) }

// Map makes the CUDA kernels of a type.
func (k kernel) Map() string {
	result, scalars := "T", "C"
	if k.Class.Bool {
		result = "b8"
	}
	if k.Double {
		scalars = "W"
	}
	if len(k.Operands) == 3 {
		return fmt.Sprintf("MAP3(%s_##T, fn::%s, T, %s)", k.Name, k.ID, scalars)
	}
	return fmt.Sprintf("MAP%d(%s_##T, fn::%s, %s, T, %s)", len(k.Operands), k.Name, k.ID, result, scalars)
}

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
