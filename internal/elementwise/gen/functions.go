package main

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"unicode"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// kernel is an operation of the kernels: one of the table, or one of its gradients.
type kernel struct {
	ID, Name string // of Go, and of PyTorch's manner
	In       string // views as the specification counts them
	Operands []string
	Types    string // as the specification names them
	Spec     string
	Go, CUDA string
	Exact    bool // Go is arithmetic in the type itself
	Whole    bool // integers too

	Reference string
	Ulps      float64
	Gradient  bool
	Op        elementwise.Op
}

// operandsOf are the names of the inputs in expressions.
func operandsOf(o elementwise.Op) []string {
	if o.Second != "" {
		return []string{"a", "b"}
	}
	return []string{"a"}
}

// kernelsOf are the kernels of an operation: itself, and its gradients.
func kernelsOf(o elementwise.Op) []kernel {
	inputs := operandsOf(o)
	types := "floats"
	if o.Types == elementwise.Numeric {
		types = "numbers"
	}
	list := []kernel{{
		ID: o.Name, Name: o.Torch, In: strings.Repeat("k", len(inputs)), Operands: inputs, Types: types, Spec: specOf(o),
		Go: o.Go, CUDA: o.CUDA, Exact: o.Types == elementwise.Numeric, Whole: o.Types == elementwise.Numeric,
		Reference: o.Test.Reference, Ulps: o.Test.Ulps, Op: o,
	}}
	for i, g := range o.Gradients {
		operands := append([]string{"g"}, inputs...)
		saved := "the input"
		switch {
		case g.OfOutput:
			operands, saved = []string{"g", "a"}, "the result"
		case o.Second != "":
			saved = "the inputs a and b"
		}
		list = append(list, kernel{
			ID: o.Name + gradSuffix(o, i), Name: o.Torch + "_backward" + map[bool]string{true: "_other"}[i == 1],
			In: strings.Repeat("k", len(operands)), Operands: operands, Types: "floats", Spec: g.Formula + ", of the gradient g and " + saved,
			Go: g.Go, CUDA: g.CUDA, Reference: o.Test.Gradients[i], Ulps: o.Test.Ulps, Gradient: true, Op: o,
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

var wordT = regexp.MustCompile(`\bt\b`)

// specOf is what the operation does, of its inputs a and b.
func specOf(o elementwise.Op) string {
	s := wordT.ReplaceAllString(strings.TrimPrefix(o.Does, "is "), "a")
	if o.Second != "" {
		s = regexp.MustCompile(`\b`+o.Second+`\b`).ReplaceAllString(s, "b")
	}
	return s
}

// elementsOf makes the Go expression one of slices: its operands get the index [i], converted.
func elementsOf(k kernel) string {
	e := k.Go
	for _, name := range k.Operands {
		to := fmt.Sprintf("float64(%s[i])", name)
		if k.Exact {
			to = name + "[i]"
		}
		e = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(e, to)
	}
	return e
}

// referenceOf makes the reference one of the list x.
func referenceOf(k kernel) string {
	e := inList(k.Reference, k)
	if k.Gradient {
		e = "x[0] * (" + e + ")"
	}
	return e
}

// inList makes an expression of elements one of the list x.
func inList(e string, k kernel) string {
	for i, name := range k.Operands {
		e = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(e, fmt.Sprintf("x[%d]", i))
	}
	return e
}

// cudaOf makes operands of a CUDA expression those of the macros, a, b and c in the order of inputs.
func cudaOf(k kernel) string {
	e := k.CUDA
	for i := len(k.Operands) - 1; i >= 0; i-- {
		e = regexp.MustCompile(`\b`+k.Operands[i]+`\b`).ReplaceAllString(e, string("abc"[i]))
	}
	return e
}

var functions = template.FuncMap{
	"kernels": func(ops []elementwise.Op) (list []kernel) {
		for _, o := range ops {
			list = append(list, kernelsOf(o)...)
		}
		return list
	},
	"elements":  elementsOf,
	"reference": referenceOf,
	"cuda":      cudaOf,
	"scale":     func(k kernel) string { return inList(k.Op.Test.Scale, k) },
	"suffix":    gradSuffix,
	"lower":     lower,
	"list":      func(s []string) string { return strings.Join(s, ", ") },
	"floats":    func(ks []kernel) []kernel { return filter(ks, func(k kernel) bool { return !k.Whole }) },
	"wholes":    func(ks []kernel) []kernel { return filter(ks, func(k kernel) bool { return k.Whole }) },
	"onV":       func(s string) string { return wordT.ReplaceAllString(s, "v") },
	"promotion": promotion,
	"tensorFunc": func(o elementwise.Op) string {
		return map[elementwise.Types]string{elementwise.ToFloat: "unaryFloat", elementwise.OnlyFloats: "activation", elementwise.Numeric: "unaryNumeric"}[o.Types]
	},
	"binaryFunc": func(o elementwise.Op) string {
		return map[elementwise.Types]string{elementwise.ToFloat: "binaryFloat", elementwise.OnlyFloats: "binaryActivation"}[o.Types]
	},
	"saves":    saves,
	"onlyReal": func(o elementwise.Op) bool { return o.Types == elementwise.OnlyFloats },
	"whole":    func(o elementwise.Op) bool { return o.Types == elementwise.Numeric },
	"json":     func(s string) string { return fmt.Sprintf("%q", s) },
	"arity":    func(k kernel) string { return []string{"one", "two", "three"}[len(k.Operands)-1] },
	"macro":    func(k kernel) string { return []string{"UNARY", "BINARY", "TERNARY"}[len(k.Operands)-1] },
	"map":      mapOf,
	"computes": func(k kernel) bool { return computes.MatchString(k.CUDA) },
	"last":     func(i, n int) bool { return i == n-1 },
}

// computes finds divisions and calls of functions, which take longer than loads.
var computes = regexp.MustCompile(`/|[a-z0-9_]\(`)

// mapOf makes the kernels of a type.
func mapOf(k kernel) string {
	if len(k.Operands) == 3 {
		return fmt.Sprintf("MAP3(%s_##T, %s, T, C)", k.Name, k.ID)
	}
	return fmt.Sprintf("MAP%d(%s_##T, %s, T, T, C)", len(k.Operands), k.Name, k.ID)
}

func filter(ks []kernel, keep func(kernel) bool) (list []kernel) {
	for _, k := range ks {
		if keep(k) {
			list = append(list, k)
		}
	}
	return list
}

// lower is the name of a function that is not exported: softsign, logAddExp.
func lower(name string) string {
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}

// promotion is a sentence about types.
func promotion(o elementwise.Op) string {
	return map[elementwise.Types]string{
		elementwise.ToFloat:    "Makes float32 of integers and bools.",
		elementwise.OnlyFloats: "Only takes floating-point types.",
		elementwise.Numeric:    "Not defined for bool; integers wrap.",
	}[o.Types]
}

// saves says what autograd's operation saves.
func saves(o elementwise.Op) string {
	switch {
	case o.Second != "":
		return "Saves both."
	case o.Gradients[0].OfOutput:
		return "Saves its result."
	}
	return "Saves v."
}
