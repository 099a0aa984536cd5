package peer

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/cistern-ml/cistern/benchmarks/internal/harness"
	"github.com/cistern-ml/cistern/benchmarks/internal/torch"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/tensor"
)

// Case is what a benchmark keeps of a problem: what it is, as the script reads it, and what was measured of it.
type Case[P comparable] interface {
	Of() P
	Measured() *Result
}

// Report is everything that a benchmark of calls on both sides writes.
type Report[P comparable, C Case[P]] struct {
	harness.Head
	Refused []string `json:"refused,omitempty"` // what PyTorch did not compute
	Results []C      `json:"results"`
}

// Bench is a benchmark of calls on both sides.
type Bench[P comparable, C Case[P]] struct {
	Flags  *harness.Flags
	Script string   // of PyTorch's side, for problems of type P
	Ways   []string // PyTorch's, in the order of the table
	Fair   func(way string) bool

	Titles string         // of the table's columns before those of this package
	Cells  func(C) string // and what stands there
}

// Measure measures our side with ours, which adds to the report what it could measure and what not, then PyTorch's. The report is written
// to the file before PyTorch runs.
func (b *Bench[P, C]) Measure(ours func(e tensor.Exec, r *Report[P, C])) (r *Report[P, C], err error) {
	err = harness.On(b.Flags.Device, func(e tensor.Exec, spec device.Spec) error {
		r = &Report[P, C]{Head: b.Flags.Head(e.Device())}
		if err := Warm(e, b.Flags.Duration); err != nil {
			return err
		}
		ours(e, r)
		if err := e.Allocator().EmptyCache(); err != nil { // PyTorch needs memory too
			return err
		}
		if err := harness.WriteJSON(b.Flags.JSON, r); err != nil { // whatever becomes of PyTorch
			return err
		}
		b.addPyTorch(r, spec)
		return nil
	})
	return r, err
}

// addPyTorch puts PyTorch's numbers beside ours, or notes why there are none. That is no failure.
func (b *Bench[P, C]) addPyTorch(r *Report[P, C], spec device.Spec) {
	var out struct {
		Version string
		Results []json.RawMessage // each a problem and a Line
		Errors  []string          // what PyTorch refused
	}
	err := b.runPyTorch(r, spec, &out)
	some := false
	if r.PyTorch, some = torch.Says(out.Version, err); !some {
		return
	}
	r.Refused = out.Errors
	place := map[P]C{}
	for _, x := range r.Results {
		place[x.Of()] = x
	}
	for _, text := range out.Results {
		var p P
		var l Line
		if json.Unmarshal(text, &p) != nil || json.Unmarshal(text, &l) != nil {
			r.Refused = append(r.Refused, "a result that cannot be read: "+string(text))
		} else if x, ok := place[p]; ok {
			x.Measured().Add(&l, b.Fair)
		}
	}
}

// runPyTorch runs the script on what was measured.
func (b *Bench[P, C]) runPyTorch(r *Report[P, C], spec device.Spec, out any) error {
	on, err := torch.Device(spec)
	if err != nil {
		return err
	}
	var all []P
	for _, x := range r.Results {
		all = append(all, x.Of())
	}
	list, err := json.Marshal(all)
	if err != nil {
		return err
	}
	args := []string{"--device", on, "--runs", strconv.Itoa(b.Flags.Runs), "--seconds", fmt.Sprint(b.Flags.Duration.Seconds()), "--problems", string(list)}
	return torch.Script{Python: b.Flags.Python, Text: torch.Peer + b.Script, Args: args, Limit: b.Flags.Limit}.Run(out)
}

// used are the ways that have numbers.
func (b *Bench[P, C]) used(r *Report[P, C]) (list []string) {
	for _, way := range b.Ways {
		for _, x := range r.Results {
			if x.Measured().PyTorch[way] != nil {
				list = append(list, way)
				break
			}
		}
	}
	return list
}

// Write prints the table, and the file if it has a name. What was not computed is an error: the rest was measured all the same.
func (b *Bench[P, C]) Write(w io.Writer, r *Report[P, C]) error {
	if err := harness.WriteJSON(b.Flags.JSON, r); err != nil {
		return err
	}
	fmt.Fprint(w, &r.Head)
	if err := r.Failed.Print(w); err != nil {
		return err
	}
	for _, why := range r.Refused {
		fmt.Fprintln(w, "PyTorch: without", why)
	}
	used := b.used(r)
	err := harness.Table(w, func(w io.Writer) {
		fmt.Fprintln(w, "\n"+b.Titles+"\t"+Head(used))
		for _, x := range r.Results {
			fmt.Fprintln(w, b.Cells(x)+"\t"+x.Measured().Cells(used))
		}
	})
	if err != nil {
		return err
	}
	return r.Failed.Err()
}
