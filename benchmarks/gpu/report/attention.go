package main

import (
	"fmt"
	"io"
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
		Type, Pass                         string
		Causal                             bool
		Batch, Heads, Queries, Keys, Width int
		compared
	}
)

func (x *attended) name() string {
	causal := ""
	if x.Causal {
		causal = ", causal"
	}
	return fmt.Sprintf("%dx%dx%dx%dx%d %s %s%s", x.Batch, x.Heads, x.Queries, x.Keys, x.Width, x.Type, x.Pass, causal)
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
	fmt.Fprint(w, "### attention: beside each of PyTorch's backends\n\nShapes are sequences, heads, queries, keys, elements; \"both\" is forward and backward. ")
	remarks(w, a.PyTorch, a.Refused, a.Failed, differ, calls)
	ways := waysOf([]string{"flash", "cudnn", "efficient", "math", "default", "written"}, calls)
	head := "| shape | type | causal | pass |" + callHead(ways)
	fmt.Fprintf(w, "%s\n%s\n", head, strings.Repeat("|---", strings.Count(head, "|")-1)+"|")
	for _, x := range a.Results {
		fmt.Fprintf(w, "| %d, %d, %d, %d, %d | %s | %v | %s |%s\n", x.Batch, x.Heads, x.Queries, x.Keys, x.Width, x.Type, x.Causal, x.Pass, x.cells(ways))
	}
	fmt.Fprintln(w)
}
