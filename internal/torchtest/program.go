package torchtest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Program is what Cistern and PyTorch both run. Either it is a list of steps, with a backward pass at the end, or the steps of an
// optimizer (Train).
type Program struct {
	Note string `json:"note,omitempty"` // what it once showed, for programs of the corpus
	Seed uint64 `json:"seed,omitempty"` // that it was generated from
	// Eager runs the methods of tensors; otherwise those of the variables of a graph run.
	Eager    bool      `json:"eager,omitempty"`
	Autocast bool      `json:"autocast,omitempty"` // to bfloat16
	Steps    []Step    `json:"steps,omitempty"`
	Backward *Backward `json:"backward,omitempty"`
	Train    *Train    `json:"train,omitempty"`

	huge  bool // has numbers whose squares overflow; set by Compare
	large bool // has numbers greater than 1e6; likewise
	// placed are the values whose strides are the same in both; likewise
	placed map[string]bool
}

// Step makes an input, calls an operation or runs a layer. Its first result is the value "v3" if its ID is 3, others are "v3.1" and
// so on.
type Step struct {
	ID int    `json:"id"`
	Op string `json:"op"` // "Input", the name of a method or function, or "nn." and a layer
	// Args are the receiver and the arguments of the method, or the configuration of the layer and its inputs. Values are named,
	// "v3"; the arguments of a variadic parameter are one list; numbers that JSON does not have are "inf", "-inf" and "nan".
	Args []any `json:"args,omitempty"`

	// Of inputs: Data are the elements of a tensor of shape Base, of which the input is a view.
	DType string  `json:"dtype,omitempty"`
	Base  []int   `json:"base,omitempty"`
	Views [][]any `json:"views,omitempty"` // method and arguments: "transpose", "slice", "select", "unsqueeze", "expand"
	Data  string  `json:"data,omitempty"`
	Grad  bool    `json:"grad,omitempty"`

	// Of layers: parameters and buffers by name, and whether it evaluates.
	Params map[string]string `json:"params,omitempty"`
	Eval   bool              `json:"eval,omitempty"`
}

// Backward is the pass at the end: from the values Of with the gradients Seeds. Gradients are those of the inputs and of the values
// Retain, or, if Wrt names any, what Grad returns for these. Twice has a pass of Grad for the inputs, which is recorded, and one from the
// gradients that it gave (named "v3.first"), with fixed numbers as their gradients.
type Backward struct {
	Of     []string `json:"of"`
	Seeds  []string `json:"seeds"`
	Retain []string `json:"retain,omitempty"`
	Wrt    []string `json:"wrt,omitempty"`
	Twice  bool     `json:"twice,omitempty"`
}

// Train is a run of an optimizer over given gradients.
type Train struct {
	Optimizer string         `json:"optimizer"` // PyTorch's name
	Options   map[string]any `json:"options"`   // PyTorch's keywords
	DType     string         `json:"dtype"`
	Shapes    [][]int        `json:"shapes"`
	Data      []string       `json:"data"`
	Groups    int            `json:"groups,omitempty"` // so many parameters are in the first of two groups; 0 makes one group
	Grads     [][]*string    `json:"grads"`            // by step and parameter; nil is no gradient
	Metrics   []string       `json:"metrics,omitempty"`
	ClipNorm  *string        `json:"clipnorm,omitempty"`
	NormType  string         `json:"normtype,omitempty"`
	ClipValue *float64       `json:"clipvalue,omitempty"`
	Schedule  *Settings      `json:"schedule,omitempty"`
}

// Settings are the name of a schedule and PyTorch's keywords.
type Settings struct {
	Name    string         `json:"name"`
	Options map[string]any `json:"options"`
}

// Answer is what came of a program.
type Answer struct {
	Failed int              `json:"failed"` // the step that was refused, the number of steps for the backward pass, -1 for none
	Error  string           `json:"error,omitempty"`
	Values map[string]Value `json:"values"`
	Grads  map[string]Value `json:"grads"`
	Leak   string           `json:"-"` // what was left allocated
	Panic  string           `json:"-"`
}

// Value is a tensor on the host. DType "none" stands for no tensor.
type Value struct {
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape,omitempty"`
	Data   string `json:"data,omitempty"`   // the elements in row-major order
	Order  []int  `json:"order,omitempty"`  // the strides, 0 of a single element, of 2 dimensions and more
	Spread string `json:"spread,omitempty"` // how far each element moves if operations make rounding errors
}

// clone is p after a round through JSON, so that its arguments are those that would be read from a file.
func (p *Program) clone() *Program {
	text, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("torchtest: a program that JSON cannot hold: %v", err))
	}
	q := new(Program)
	if err := json.Unmarshal(text, q); err != nil {
		panic(fmt.Sprintf("torchtest: %s: %v", text, err))
	}
	return q
}

// isValue reports whether an argument names a value.
func isValue(a any) bool {
	s, ok := a.(string)
	return ok && len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}

// uses lists the values that a step names.
func (s *Step) uses() []string {
	var names []string
	var walk func(a any)
	walk = func(a any) {
		if isValue(a) {
			names = append(names, a.(string))
		}
		if list, ok := a.([]any); ok {
			for _, x := range list {
				walk(x)
			}
		}
	}
	for _, a := range s.Args {
		walk(a)
	}
	return names
}

// stepOf is the step "v3" of a value "v3.1".
func stepOf(value string) string {
	name, _, _ := strings.Cut(value, ".")
	return name
}

func (s *Step) name() string { return fmt.Sprintf("v%d", s.ID) }
