package parallel

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/internal/excerpt"
	"github.com/cistern-ml/cistern/internal/isnil"
	"github.com/cistern-ml/cistern/tensor"
)

// Before anything is broadcast the ranks compare what they have: else a collective would wait for one that never comes, or mix parameters up.

// manifest says of each parameter and buffer, and of the settings, what must be the same on all ranks: a line each, with the name first. The first ones are the parameters, as many as that.
func (d *DataParallel) manifest(all []nn.Named, parameters int) []string {
	lines := make([]string, 0, len(all)+1)
	lines = append(lines, fmt.Sprintf("options\tZeRO %d; buckets of %d and %d bytes; FindUnused %v; GradientsInParts %v; BroadcastBuffers %v; SyncBatchNorm %v; MasterWeights %v; Units %s", d.set.stage,
		d.set.first, d.set.rest, d.set.unused, d.set.parts, d.set.buffers, d.set.joined, d.set.master, d.unitPaths()))
	for i, n := range all {
		t := n.Parameter.Tensor()
		line := fmt.Sprintf("%s\t%s %v", n.Name, t.DType(), []int(t.Shape()))
		switch {
		case n.Parameter.RequiresGrad():
			line += ", trained"
		case i < parameters:
			line += ", frozen"
		default:
			line += ", a buffer"
		}
		lines = append(lines, line)
	}
	return lines
}

// unitPaths says where in the model the modules of Units are.
func (d *DataParallel) unitPaths() string {
	places := map[autograd.Located]string{}
	for path, m := range nn.NamedModules(d.model) {
		if at := nn.LocatedIn(key, m); at != nil {
			places[at] = path
		}
	}
	paths := make([]string, len(d.set.units))
	for i, m := range d.set.units {
		if isnil.Value(m) { // refused when the units are made
			continue
		}
		if at := nn.LocatedIn(key, m); at != nil {
			paths[i] = places[at]
		}
	}
	return excerpt.List(paths)
}

// compare is a *MismatchError on all ranks if the manifests of any two differ.
func (d *DataParallel) compare(lines []string) error {
	text := strings.Join(lines, "\n")
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	own := []int64{int64(h.Sum64()), int64(len(text)), lastNumber(d.comm)}
	all, err := d.gatherNumbers("comparison of the models", own...)
	if err != nil {
		return err
	}
	same, numbers := true, own[2:] // also on a simulated device, which has no numbers
	for r := range d.comm.Size() {
		hash, length, number := all[3*r], all[3*r+1], all[3*r+2]
		same = same && hash == all[0] && length == all[1]
		numbers = append(numbers, number)
	}
	if same {
		d.enrol(numbers)
		return nil
	}
	return d.difference(lines, text, int(all[1]))
}

// difference finds out which rank differs first, and in what.
func (d *DataParallel) difference(lines []string, text string, length int) error {
	const op = "comparison of the models"
	theirs, err := d.broadcastBytes(op, []byte(text), length, 0)
	if err != nil {
		return err
	}
	want := strings.Split(string(theirs), "\n")
	at := int64(-1)
	for i := range max(len(want), len(lines)) {
		if i >= len(want) || i >= len(lines) || want[i] != lines[i] {
			at = int64(i)
			break
		}
	}
	own := ""
	if at >= 0 && at < int64(len(lines)) {
		own = lines[at]
	}
	all, err := d.gatherNumbers(op, at, int64(len(own)))
	if err != nil {
		return err
	}
	for rank := range d.comm.Size() {
		at, n := all[2*rank], all[2*rank+1]
		if at < 0 {
			continue
		}
		there, err := d.broadcastBytes(op, []byte(own), int(n), rank) // what that rank has, for the errors of the others
		if err != nil {
			return err
		}
		return mismatch(rank, int(at), want, string(there))
	}
	return &MismatchError{Rank: 0} // not reached: some hash differed
}

// mismatch is the error of a rank whose line at is another one than rank 0's, "" if it has fewer.
func mismatch(rank, at int, want []string, there string) error {
	name, have, _ := strings.Cut(there, "\t")
	e := &MismatchError{Rank: rank, Have: have}
	if at == 0 { // the line of manifest that is no parameter's
		e.Options = true
		_, e.Want, _ = strings.Cut(want[0], "\t")
		e.Want, e.Have = different(e.Want, e.Have)
		return e
	}
	if at < len(want) {
		e.Parameter, e.Want, _ = strings.Cut(want[at], "\t")
	}
	if there != "" && name != e.Parameter {
		e.Have = excerpt.Quote(name) + ", " + have
	}
	return e
}

// different are those of two lists of settings that differ.
func different(want, have string) (string, string) {
	a, b := strings.Split(want, "; "), strings.Split(have, "; ")
	var x, y []string
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	return strings.Join(x, "; "), strings.Join(y, "; ")
}

// gatherNumbers returns the numbers of all ranks, in their order. It waits.
func (d *DataParallel) gatherNumbers(op string, own ...int64) ([]int64, error) {
	src, err := tensor.FromSlice(d.side, own, len(own))
	if err != nil {
		return nil, d.wrong(op, err)
	}
	defer src.Release()
	dst, err := tensor.Zeros(d.side, tensor.Int64, len(own)*d.comm.Size())
	if err != nil {
		return nil, d.wrong(op, err)
	}
	defer dst.Release()
	if err := d.allGather(op, dst, src); err != nil {
		return nil, err
	}
	return d.read(op, dst)
}

// broadcastNumbers returns rank 0's numbers, as many as all give. It waits.
func (d *DataParallel) broadcastNumbers(op string, own []int64) ([]int64, error) {
	t, err := tensor.FromSlice(d.side, own, len(own))
	if err != nil {
		return nil, d.wrong(op, err)
	}
	defer t.Release()
	if err := d.broadcast(op, t); err != nil {
		return nil, err
	}
	return d.read(op, t)
}

func (d *DataParallel) read(op string, t *tensor.Tensor) ([]int64, error) {
	values, err := tensor.ToSlice[int64](t)
	return values, d.wrong(op, err)
}
