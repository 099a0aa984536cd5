package main

import (
	"fmt"
	"slices"
	"strings"
)

// What package cpu has of a kernel.

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
	if k.Go == "" {
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
	case !k.Floats():
		list[0].Params = "[T integer]"
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

// Names are those of the scalars, _ for one that the expression does not use.
func (l loop) Names() string {
	names := slices.Clone(l.Scalars)
	for i, name := range names {
		if replaced(l.Expr, name, "") == l.Expr {
			names[i] = "_"
		}
	}
	return strings.Join(names, ", ")
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
			case t == "float64" && k.Float64 != "":
				f = k.Float64
			case t == "int64" && k.Int64 != "":
				f = k.Int64
			case k.Narrow != "" && k.Loop == "":
				f += map[string]string{"float32": "Float32", "float64": "Float64"}[t]
			default:
				f += "[" + t + "]"
			}
			if k.Class == conditionClass && arity == "two8" && t != "uint8" {
				f = "compared(op." + k.ID + ", " + f + ")"
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
	var parts []string
	if k.Floats() {
		parts = append(parts, "floats("+of(name, "float32", "float64")+")")
	}
	if k.Integers() {
		whole := name
		if k.Whole != "" {
			whole = k.Fn() + "Whole"
		} else if k.WholeLoop != "" {
			whole = k.WholeLoop
		}
		parts = append(parts, "integers("+of(whole, "int64", "int32", "uint8")+")")
	}
	if k.Class.Maps == "ANY" && k.Bool == "" {
		parts = append(parts, "boolean("+of(name, "uint8")+")")
	}
	if k.Bool != "" {
		parts = append(parts, "boolean("+arity+"("+k.Bool+"))")
	}
	return strings.Join(parts, ", ")
}
