package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

type (
	// attention is what benchmarks/attention writes.
	attention struct {
		Device, PyTorch string
		Refused, Failed []string
		Results         []*attended
	}
	attended struct {
		Type, Pass                                 string
		Causal                                     bool
		Batch, Heads, Queries, Keys, Width, Groups int // groups are heads of keys
		compared
	}
)

// shape is a shape's numbers; of figures from before there were groups, these are 0.
func (x *attended) shape(between string) string {
	sizes := []int{x.Batch, x.Heads, x.Queries, x.Keys, x.Width}
	if x.Groups != 0 && x.Groups != x.Heads {
		sizes = append(sizes, x.Groups)
	}
	text := make([]string, len(sizes))
	for i, n := range sizes {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, between)
}

func (x *attended) name() string {
	causal := ""
	if x.Causal {
		causal = ", causal"
	}
	return fmt.Sprintf("%s %s %s%s", x.shape("x"), x.Type, x.Pass, causal)
}

func (a *attention) calls() (list []*compared, differ []string) {
	for _, x := range a.Results {
		list = append(list, &x.compared)
		if x.differs(x.Type) {
			differ = append(differ, x.name())
		}
	}
	return list, differ
}

func (r *Results) attentionRatios() (list []float64) {
	if a := figures[attention](r, "attention"); a != nil {
		for _, x := range a.Results {
			list = append(list, x.OfPyTorch)
		}
	}
	return list
}

func (r *Results) attentionTable(w io.Writer) {
	a := figures[attention](r, "attention")
	if a == nil {
		return
	}
	calls, differ := a.calls()
	fmt.Fprint(w, "### attention: beside each of PyTorch's backends\n\nShapes are sequences, heads, queries, keys, elements, and heads of keys if these are fewer; \"both\" is forward and backward. ")
	remarks(w, a.PyTorch, a.Refused, a.Failed, differ, calls)
	ways := waysOf([]string{"flash", "cudnn", "efficient", "math", "default", "written"}, calls)
	head := "| shape | type | causal | pass |" + callHead(ways)
	fmt.Fprintf(w, "%s\n%s\n", head, strings.Repeat("|---", strings.Count(head, "|")-1)+"|")
	for _, x := range a.Results {
		fmt.Fprintf(w, "| %s | %s | %v | %s |%s\n", x.shape(", "), x.Type, x.Causal, x.Pass, x.cells(ways))
	}
	fmt.Fprintln(w)
}
