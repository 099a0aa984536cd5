package main

import (
	"fmt"
	"io"
	"strings"
)

// What the table needs of the JSON of benchmarks/train, which says what the fields are.
type (
	trainPeers struct {
		Library, PyTorch string
		Results          []trainedModel
	}
	trainedModel struct {
		Model, AMP, Unit string
		Batch            int
		Runs             int
		Steps            int `json:"steps_per_run"`
		Subjects         []trainee
	}
	trainee struct {
		Name      string
		First     float64 `json:"first_step_s"`
		US        float64 `json:"us"`
		Fastest   float64 `json:"us_fastest"`
		Slowest   float64 `json:"us_slowest"`
		Rate      float64 `json:"items_per_s"`
		TFLOPS    float64
		Allocated int64 `json:"peak_allocated_bytes"`
		Reserved  int64 `json:"peak_reserved_bytes"`
		Losses    []float64
		Remark    string
		OfEager   float64    `json:"rate_by_own_eager"`
		Ratios    peerRatios `json:"cistern_by_this"`
	}
	// peerRatios are our numbers by PyTorch's.
	peerRatios struct {
		Rate      float64
		Allocated float64 `json:"peak_allocated"`
		Reserved  float64 `json:"peak_reserved"`
	}
)

// trainPeersFigures are the names of the program's figures: large models, and small ones in a step of their own.
var trainPeersFigures = []string{"train", "train-small"}

const trainPeersHead = "| model | precision | batch | subject | ms/step | | per s | TFLOP/s | first step s | peak allocated MB | peak reserved MB | first loss " +
	"| last loss | by own eager | rate / this | allocated / this | reserved / this | remark |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// trainPeersTable prints whole training steps beside PyTorch's.
func (r *Results) trainPeersTable(w io.Writer) {
	for _, name := range trainPeersFigures {
		f := figures[trainPeers](r, name)
		if f == nil || len(f.Results) == 0 {
			continue
		}
		fmt.Fprintf(w, "### %s: whole training steps, and the same in PyTorch\n\nPyTorch: %s.", name, f.PyTorch)
		if f.Library != "" {
			fmt.Fprintf(w, " Products: %s.", f.Library)
		}
		fmt.Fprint(w, " Median of the runs (fastest-slowest). Graphs are whole steps, captured and replayed; \"by own eager\" is a row's speed "+
			"divided by that of the same side's eager steps. The columns behind it are Cistern's figure divided by the row's, of graphs the graph's.\n\n", trainPeersHead)
		for _, x := range f.Results {
			for _, s := range x.Subjects {
				s.row(w, &x)
			}
		}
		fmt.Fprintln(w)
	}
}

func (s *trainee) row(w io.Writer, x *trainedModel) {
	mb := func(n int64) string { return number("%.1f", float64(n)/1e6) }
	spread, rate, first, last := "", "-", "-", "-"
	if s.Slowest > 0 {
		spread, rate = fmt.Sprintf("(%.2f-%.2f)", s.Fastest/1e3, s.Slowest/1e3), fmt.Sprintf("%.0f %s", s.Rate, x.Unit)
	}
	if n := len(s.Losses); n > 0 {
		first, last = fmt.Sprintf("%.4f", s.Losses[0]), fmt.Sprintf("%.4f", s.Losses[n-1])
	}
	fmt.Fprintf(w, "| %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", x.Model, x.AMP, x.Batch, s.Name,
		number("%.2f", s.US/1e3), spread, rate, number("%.1f", s.TFLOPS), number("%.2f", s.First), mb(s.Allocated), mb(s.Reserved), first, last,
		number("%.2f", s.OfEager), number("%.2f", s.Ratios.Rate), number("%.3f", s.Ratios.Allocated), number("%.3f", s.Ratios.Reserved), strings.ReplaceAll(s.Remark, "|", "/"))
}

const (
	wantOfEager       = 1.00 // tokens per second of GPT-2, of PyTorch's eager mode
	wantOfEagersPeaks = 1.00 // allocated bytes of the same
)

// trainPeersTargets are those of GPT-2 in its own precision against PyTorch's eager mode.
func (r *Results) trainPeersTargets() (list []target) {
	f := figures[trainPeers](r, trainPeersFigures[0])
	if f == nil {
		return nil
	}
	for _, x := range f.Results {
		own, peer := x.find("cistern"), x.find("pytorch eager")
		if x.Model != "gpt2" || own == nil || peer == nil {
			continue
		}
		what := fmt.Sprintf("GPT-2, %s, batch %d: ", x.AMP, x.Batch)
		if by := peer.Ratios.Rate; by > 0 {
			list = append(list, target{what + x.Unit + "/s, of PyTorch's eager mode", fmt.Sprintf("at least %.2f", wantOfEager),
				fmt.Sprintf("%.2f (%.0f of %.0f)", by, own.Rate, peer.Rate), by >= wantOfEager})
		}
		if by := peer.Ratios.Allocated; by > 0 {
			list = append(list, target{what + "peak allocated, of PyTorch's eager mode", fmt.Sprintf("at most %.2f", wantOfEagersPeaks),
				fmt.Sprintf("%.2f (%.0f of %.0f MB)", by, float64(own.Allocated)/1e6, float64(peer.Allocated)/1e6), by <= wantOfEagersPeaks})
		}
	}
	return list
}

func (x *trainedModel) find(name string) *trainee {
	for i := range x.Subjects {
		if x.Subjects[i].Name == name {
			return &x.Subjects[i]
		}
	}
	return nil
}
