package main

import (
	"fmt"
	"io"
	"strings"
)

type (
	// conv is what benchmarks/conv writes.
	conv struct {
		Device, PyTorch string
		Refused, Failed []string
		Results         []*convolved
	}
	convolved struct {
		Type, Pass                                     string
		N, C, H, W, O, KH, KW, Stride, Padding, Groups int
		compared
		Strided *struct {
			US float64 `json:"us"`
		}
	}
)

func (x *convolved) shape() string {
	return fmt.Sprintf("%dx%dx%dx%d, %d of %dx%d, stride %d, padding %d, groups %d", x.N, x.C, x.H, x.W, x.O, x.KH, x.KW, x.Stride, x.Padding, x.Groups)
}

func (c *conv) calls() (list []*compared, differ []string) {
	for _, x := range c.Results {
		list = append(list, &x.compared)
		if x.differs(x.Type) {
			differ = append(differ, x.shape()+" "+x.Type+" "+x.Pass)
		}
	}
	return list, differ
}

func (r *Results) convRatios() (list []float64) {
	if c := figures[conv](r, "conv"); c != nil {
		for _, x := range c.Results {
			list = append(list, x.OfPyTorch)
		}
	}
	return list
}

func (r *Results) convTable(w io.Writer) {
	c := figures[conv](r, "conv")
	if c == nil {
		return
	}
	calls, differ := c.calls()
	fmt.Fprint(w, "### conv: convolutions, beside cuDNN's through PyTorch\n\n\"Strided\" is our time with images in memory as NHWC; all other columns of ours are with NCHW, in which results always are. ")
	remarks(w, c.PyTorch, c.Refused, c.Failed, differ, calls)
	ways := waysOf([]string{"nchw", "channels last", "nchw tf32", "channels last tf32"}, calls)
	head := "| shape | type | pass | strided µs |" + callHead(ways)
	fmt.Fprintf(w, "%s\n%s\n", head, strings.Repeat("|---", strings.Count(head, "|")-1)+"|")
	for _, x := range c.Results {
		strided := 0.0
		if x.Strided != nil {
			strided = x.Strided.US
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |%s\n", x.shape(), x.Type, x.Pass, number("%.1f", strided), x.cells(ways))
	}
	fmt.Fprintln(w)
}
