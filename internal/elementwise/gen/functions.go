package main

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"unicode"

	"github.com/cistern-ml/cistern/internal/elementwise"
)

// functions are those of the templates.
var functions = template.FuncMap{
	"kernels": func(ops []elementwise.Op) (list []kernel) {
		for _, o := range ops {
			list = append(list, kernelsOf(o)...)
		}
		return list
	},
	"in": func(maps string, ks []kernel) []kernel {
		return filter(ks, func(k kernel) bool { return k.Class.Maps == maps })
	},
	"list":   func(s []string) string { return strings.Join(s, ", ") },
	"names":  func(s ...string) []string { return s },
	"lower":  lower,
	"suffix": gradSuffix, "methodOf": methodOf,
	"two":  func(o elementwise.Op) bool { return len(o.Scalars) == 2 },
	"json": func(s string) string { return fmt.Sprintf("%q", s) },
	"last": func(i, n int) bool { return i == n-1 },

	"tensor":   func() elementwise.Layers { return elementwise.Tensor },
	"autograd": func() elementwise.Layers { return elementwise.Autograd },
	"inLayer":  inLayer,
	"madeIn": func(l elementwise.Layers, ops []elementwise.Op) []elementwise.Op {
		return filter(ops, func(o elementwise.Op) bool { return inLayer(l, o) })
	},
	"inPlace": func(l elementwise.Layers, ops []elementwise.Op) []elementwise.Op {
		return filter(ops, func(o elementwise.Op) bool { return o.InPlace&l != 0 })
	},
	"hasInPlace": func(l elementwise.Layers, o elementwise.Op) bool { return o.InPlace&l != 0 },
	"differentiable": func(ops []elementwise.Op) []elementwise.Op {
		return filter(ops, func(o elementwise.Op) bool { return inLayer(elementwise.Autograd, o) && flows(o) })
	},
	"flows":     flows,
	"hasKernel": hasKernel,
	"types":     factsOf,

	"comment":    comment,
	"doc":        doc,
	"gradDoc":    gradDoc,
	"inPlaceDoc": inPlaceDoc,
	"onV":        func(s string) string { return wordT.ReplaceAllString(s, "v") },
	"saves":      saves,

	"uses":    uses,
	"rule":    ruleOf,
	"second":  second,
	"params":  params,
	"passed":  passed,
	"arg":     arg,
	"taken":   taken,
	"numbers": func(o elementwise.Op) string { return numbers(o, "%s") },
	"args":    args,
}

// typesOf is what layers make of the types that an operation takes.
type typesOf struct {
	One, Two string // the functions of package tensor that run it
	Sentence string // in documentation
	OfTwo    string // likewise, of operations of two
	InPlace  string // likewise, of operations in place
	Takes    string // a type beside float32
	Refuses  string // one that is refused
}

var typeFacts = map[elementwise.Types]typesOf{
	elementwise.ToFloat: {One: "unaryFloat", Two: "binaryFloat", Sentence: "Makes float32 of integers and bools.",
		OfTwo: "Computed in the promoted type, and in float32 for integers and bools.", InPlace: "Only takes floating-point types.", Takes: "int32"},
	elementwise.OnlyFloats: {One: "activation", Two: "binaryActivation", Sentence: "Only takes floating-point types.",
		OfTwo: "Computed in the promoted type, which must be of floating point.", Takes: "float64", Refuses: "int32"},
	elementwise.Numeric: {One: "unaryNumeric", Two: "binaryNumeric", Sentence: "Not defined for bool.",
		OfTwo: "Computed in the promoted type; two bools are refused.", InPlace: "Not defined for bool.", Takes: "int32", Refuses: "bool"},
	elementwise.Lifting:  {One: "withScalar", Sentence: "The number lifts integers and bools to its category, and widens no type.", Takes: "int32"},
	elementwise.Rounding: {One: "rounded", Sentence: "Integers stay as they are; bools are refused.", Takes: "int64", Refuses: "bool"},
	elementwise.Tests:    {One: "tested", Sentence: "The result is of type bool.", Takes: "int32"},
	elementwise.Conditions: {One: "condition", Two: "compare", Sentence: "The result is of type bool.",
		OfTwo: "Computed in the promoted type. The result is of type bool.", Takes: "int32"},
	elementwise.Bools: {Two: "logical", OfTwo: "The result is of type bool.", Takes: "int32"},
}

// factsOf are those of an operation. Of one that is like no other in package tensor nothing is said in general.
func factsOf(o elementwise.Op) typesOf {
	facts := typeFacts[o.Types]
	if o.Second != "" {
		facts.Sentence = facts.OfTwo
	}
	switch {
	case !inLayer(elementwise.Tensor, o):
		facts.Sentence = ""
	case o.OfBools != "":
		facts.Two, facts.Refuses = "binaryWithBools", ""
		facts.Sentence = "Computed in the promoted type; of two bools it is " + map[string]string{"Mul": `"and"`, "And": `"and"`, "Or": `"or"`}[o.OfBools] + "."
	}
	return facts
}

var wordT = regexp.MustCompile(`\bt\b`)

func filter[T any](list []T, keep func(T) bool) (kept []T) {
	for _, x := range list {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// lower is the name of a function that is not exported: softsign, logAddExp, relu.
func lower(name string) string {
	for _, short := range []string{"ReLU", "GELU", "SiLU", "ELU", "SELU", "CELU", "PReLU"} {
		if rest, ok := strings.CutPrefix(name, short); ok {
			return strings.ToLower(short) + rest
		}
	}
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}

// inLayer reports whether a layer has functions of the operation that are not by hand.
func inLayer(l elementwise.Layers, o elementwise.Op) bool { return o.ByHand&l == 0 }

// hasKernel reports whether a gradient has a kernel of its own.
func hasKernel(g elementwise.Gradient) bool { return g.CUDA != "" }

// flows reports whether an operation has gradients.
func flows(o elementwise.Op) bool {
	for _, g := range o.Gradients {
		if g.None == "" {
			return true
		}
	}
	return false
}

// uses is what the rule of input i reads of the forward pass, as package autograd writes it, or nothing.
func uses(o elementwise.Op, i int) string {
	switch g := o.Gradients[i]; {
	case g.Rule != "" || g.None != "":
		return g.Uses
	case g.OfOutput:
		return "output"
	case o.Second != "":
		return "input(0) | input(1)"
	}
	return "input(0)"
}

// ruleOf is the rule of input i, as package autograd writes it.
func ruleOf(o elementwise.Op, i int) string {
	g := o.Gradients[i]
	if g.Rule != "" {
		return g.Rule
	}
	make := "ofInput"
	switch {
	case g.OfOutput:
		make = "ofOutput"
	case o.Second != "":
		make = "ofInputs"
	}
	if n := len(o.Scalars); n > 0 {
		make += fmt.Sprintf("With%d", n)
	}
	return fmt.Sprintf("%s(gradients.%s)", make, methodOf(o.Name+gradSuffix(o, i)))
}

// methodOf is the method of package tensor's gradients that computes what an error calls name: Atan2GradX is gradients.Atan2X.
func methodOf(name string) string { return strings.Replace(name, "Grad", "", 1) }

// second is the parameter of the second input, if there is one.
func second(o elementwise.Op, typ string) string {
	if o.Second == "" {
		return ""
	}
	return o.Second + " " + typ
}

// arg is what a node of autograd has besides its inputs: one number, or an array of two.
func arg(o elementwise.Op) string {
	switch len(o.Scalars) {
	case 0:
		return "nil"
	case 1:
		return o.Scalars[0]
	}
	return "[2]float64{" + strings.Join(o.Scalars, ", ") + "}"
}

// params are the parameters that the scalars are, after the operands if there are any.
func params(o elementwise.Op, operands string) string {
	s := strings.Join(o.Scalars, ", ")
	if s != "" {
		s += " float64"
	}
	if operands != "" && s != "" {
		operands += ", "
	}
	return operands + s
}

// passed are the scalars as further arguments.
func passed(o elementwise.Op) string {
	var s string
	for _, name := range o.Scalars {
		s += ", " + name
	}
	return s
}

// numbers are the scalars that the operation is tried with first, each in a format.
func numbers(o elementwise.Op, format string) string {
	if len(o.Test.Scalars) == 0 {
		return ""
	}
	values := strings.Split(o.Test.Scalars[0], ", ")
	for i, v := range values {
		values[i] = fmt.Sprintf(format, v)
	}
	return strings.Join(values, ", ")
}

// args are these as arguments of a sample.
func args(o elementwise.Op) string {
	if len(o.Scalars) == 0 {
		return "nil"
	}
	return "args{" + numbers(o, "float64(%s)") + "}"
}

// taken are the scalars of a node of autograd.
func taken(o elementwise.Op) string {
	switch len(o.Scalars) {
	case 0:
		return ""
	case 1:
		return "n.arg.(float64)"
	}
	return "s[0], s[1]"
}
