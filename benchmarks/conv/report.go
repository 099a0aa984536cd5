package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
)

//go:embed torch_conv.py
var script string

// report is everything that is written.
type report = peer.Report[problem, *result]

// result is one problem.
type result struct {
	problem
	peer.Result
	Strided *peer.Measured `json:"strided,omitempty"` // with all operands in channels_last
}

// Of is the problem.
func (x *result) Of() problem { return x.problem }

// Measured is what was measured of it.
func (x *result) Measured() *peer.Result { return &x.Result }

// tf32 is what names of ways end in that round products of float32.
const tf32 = " tf32"

func (o *options) bench() *peer.Bench[problem, *result] {
	return &peer.Bench[problem, *result]{Flags: &o.Flags, Script: script,
		Ways:   []string{"nchw", "channels last", "nchw" + tf32, "channels last" + tf32},
		Fair:   func(way string) bool { return !strings.HasSuffix(way, tf32) },
		Titles: "shape\ttype\tpass\tstrided us",
		Cells: func(x *result) string {
			strided := "-"
			if x.Strided != nil {
				strided = fmt.Sprintf("%.1f", x.Strided.Microseconds)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s", x.shape, x.Type, x.Pass, strided)
		},
	}
}
