package main

import (
	_ "embed"
	"fmt"

	"github.com/cistern-ml/cistern/benchmarks/internal/peer"
)

//go:embed torch_attention.py
var script string

// report is everything that is written.
type report = peer.Report[problem, *result]

// result is one problem.
type result struct {
	problem
	peer.Result
}

// Of is the problem.
func (x *result) Of() problem { return x.problem }

// Measured is what was measured of it.
func (x *result) Measured() *peer.Result { return &x.Result }

func (o *options) bench() *peer.Bench[problem, *result] {
	return &peer.Bench[problem, *result]{Flags: &o.Flags, Script: script,
		Ways:   []string{"flash", "cudnn", "efficient", "math", "default", "written"},
		Fair:   func(way string) bool { return way != "default" },
		Titles: "shape\ttype\tcausal\tpass",
		Cells:  func(x *result) string { return fmt.Sprintf("%s\t%s\t%v\t%s", x.shape, x.Type, x.Causal, x.Pass) },
	}
}
