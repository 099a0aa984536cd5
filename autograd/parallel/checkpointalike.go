package parallel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cistern-ml/cistern/autograd/checkpoint"
	"github.com/cistern-ml/cistern/internal/excerpt"
)

// alike is an error on all ranks if one of them was called with other arguments, or has other sections, than rank 0: what they wrote together no program could read.
func (w *saving) alike(op string) error {
	d := w.c.d
	if d == nil {
		return nil
	}
	own, err := w.declared()
	if err := w.c.agree(op, err); err != nil {
		return err
	}
	text := []byte(strings.Join(own, "\n"))
	length, err := d.broadcastNumbers("length of what rank 0 saves", []int64{int64(len(text))})
	if err != nil {
		return d.fatal(op, err)
	}
	if text, err = d.broadcastBytes("what rank 0 saves", text, int(length[0]), 0); err != nil {
		return d.fatal(op, err)
	}
	return w.c.agree(op, unlike(strings.Split(string(text), "\n"), own, d.comm.Rank()))
}

// declared is what all ranks must have alike, line by line.
func (w *saving) declared() ([]string, error) {
	lines := []string{"folder " + excerpt.Quote(w.folder), fmt.Sprintf("step %d", w.step)}
	for _, name := range slices.Sorted(maps.Keys(w.c.sections)) {
		s, how := w.c.sections[name], "Add"
		switch {
		case s.opt != nil:
			o := w.note.Optimizers[name]
			how = "Optimizer, " + o.Optimizer
			for _, g := range o.Groups {
				g = maps.Clone(g)
				delete(g, "params") // a rank has those of its pieces
				settings, err := json.Marshal(g)
				if err != nil {
					return nil, within(w.folder, name, err)
				}
				how += " " + string(settings)
			}
		case s.own:
			how = "AddOwn"
		}
		lines = append(lines, "section "+excerpt.Quote(name)+" by "+how)
	}
	return lines, nil
}

// unlike is the first difference between what rank 0 saves and what this rank does.
func unlike(first, own []string, rank int) error {
	const nothing = "nothing more"
	for i := range max(len(first), len(own)) {
		a, b := nothing, nothing
		if i < len(first) {
			a = first[i]
		}
		if i < len(own) {
			b = own[i]
		}
		if a != b {
			return &checkpoint.MismatchError{Detail: fmt.Sprintf("rank %d saves %s, where rank 0 saves %s", rank, b, a)}
		}
	}
	return nil
}
