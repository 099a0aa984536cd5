package torchtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check runs a program in both, and compares. What crashes PyTorch is not compared. PyTorch runs it several times if the first comparison, of all bits, fails.
func Check(r *Runner, torch *Torch, p *Program) (*Difference, error) {
	ours := r.Run(p)
	for _, noise := range []int{0, 6, 48} {
		answer, err := torch.Run(p, noise)
		if errors.Is(err, errCrashed) {
			return nil, nil // a bug of PyTorch's
		}
		if err != nil {
			return nil, err
		}
		d := Compare(p, ours, answer)
		if d == nil || noise == 48 || answer.Failed >= 0 || ours.Failed >= 0 {
			return d, nil
		}
	}
	return nil, nil
}

// Shrink makes a program smaller that shows a difference, as long as it shows one of the same kind: steps, results of the backward
// pass and views are left out, and elements become 0 and 1.
func Shrink(r *Runner, torch *Torch, p *Program, d *Difference) (*Program, *Difference) {
	fails := func(q *Program) *Difference {
		e, err := Check(r, torch, q.clone())
		if err != nil || e == nil || e.Kind != d.Kind || e.Op != d.Op && e.Op != "Input" {
			return nil
		}
		return e
	}
	for changed := true; changed; {
		changed = false
		for _, q := range smaller(p) {
			if e := fails(q); e != nil {
				p, d, changed = q, e, true
				break
			}
		}
	}
	return p, d
}

// smaller lists programs that have a little less than p, the largest steps first.
func smaller(p *Program) (list []*Program) {
	for i := len(p.Steps) - 1; i >= 0; i-- {
		if q := p.without(i); q != nil {
			list = append(list, q)
		}
	}
	if p.Backward != nil {
		q := p.clone()
		q.Backward = nil
		list = append(list, q)
		for i := range p.Backward.Retain {
			q := p.clone()
			q.Backward.Retain = slices.Delete(q.Backward.Retain, i, i+1)
			list = append(list, q)
		}
		for i := range p.Backward.Of {
			if len(p.Backward.Of) > 1 {
				q := p.clone()
				q.Backward.Of, q.Backward.Seeds = slices.Delete(q.Backward.Of, i, i+1), slices.Delete(q.Backward.Seeds, i, i+1)
				list = append(list, q)
			}
		}
	}
	for i, s := range p.Steps {
		change := func(f func(s *Step)) {
			q := p.clone()
			f(&q.Steps[i])
			list = append(list, q)
		}
		if s.Grad {
			change(func(s *Step) { s.Grad = false })
		}
		if len(s.Views) > 0 {
			change(func(s *Step) { s.Base, s.Views, s.Data = flat(s) })
		}
		for d, n := range s.Base {
			if len(s.Views) == 0 && n > 1 {
				change(func(s *Step) {
					s.Data = cut(s.Data, s.Base, d)
					s.Base[d]--
				})
			}
		}
		words := strings.Fields(s.Data)
		for k, w := range words {
			if w != "0" && w != "1" && len(words) <= 24 {
				for _, simple := range []string{"0", "1"} {
					change(func(s *Step) {
						words := strings.Fields(s.Data)
						words[k] = simple
						s.Data = strings.Join(words, " ")
					})
				}
			}
		}
	}
	return list
}

// without is p without step i, or nil if others use it.
func (p *Program) without(i int) *Program {
	name := p.Steps[i].name()
	for _, s := range p.Steps {
		for _, u := range s.uses() {
			if stepOf(u) == name {
				return nil
			}
		}
	}
	q := p.clone()
	q.Steps = slices.Delete(q.Steps, i, i+1)
	if b := q.Backward; b != nil {
		if slices.ContainsFunc(b.Of, func(v string) bool { return stepOf(v) == name }) {
			return nil
		}
		gone := func(v string) bool { return stepOf(v) == name }
		b.Wrt, b.Retain = slices.DeleteFunc(b.Wrt, gone), slices.DeleteFunc(b.Retain, gone)
	}
	return q
}

// flat is the shape and the first elements of an input that is no view.
func flat(s *Step) (base []int, views [][]any, data string) {
	base = slices.Clone(s.Base)
	for _, v := range s.Views {
		n := func(i int) int { return int(v[i].(float64)) }
		switch v[0] {
		case "transpose":
			base[n(1)], base[n(2)] = base[n(2)], base[n(1)]
		case "slice":
			base[n(1)] = (n(3) - n(2) + n(4) - 1) / n(4)
		case "select":
			base = slices.Delete(base, n(1), n(1)+1)
		case "unsqueeze":
			base = slices.Insert(base, n(1), 1)
		case "expand":
			base = base[:0]
			for i := range v[1:] {
				base = append(base, n(i+1))
			}
		}
	}
	words := strings.Fields(s.Data)
	for len(words) < product(base) {
		words = append(words, "1")
	}
	return base, nil, strings.Join(words[:product(base)], " ")
}

// cut takes the last slice along a dimension away from elements in row-major order.
func cut(data string, shape []int, dim int) string {
	inner := product(shape[dim+1:])
	var kept []string
	for i, w := range strings.Fields(data) {
		if i/inner%shape[dim] < shape[dim]-1 {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// Describe is a program as lines of Go, for readers, and as JSON, for the corpus.
func Describe(p *Program) string {
	var b strings.Builder
	for i := range p.Steps {
		s := &p.Steps[i]
		switch {
		case s.Op == "Input":
			fmt.Fprintf(&b, "v%d := %s%v{%s} %v grad=%v\n", s.ID, s.DType, s.Base, s.Data, s.Views, s.Grad)
		case strings.HasPrefix(s.Op, "nn."):
			fmt.Fprintf(&b, "v%d := %s(%v) eval=%v %v\n", s.ID, s.Op, s.Args, s.Eval, s.Params)
		default:
			args := make([]string, len(s.Args))
			for k, a := range s.Args {
				args[k] = fmt.Sprint(a)
			}
			fmt.Fprintf(&b, "v%d := %s.%s(%s)\n", s.ID, args[0], s.Op, strings.Join(args[1:], ", "))
		}
	}
	if p.Backward != nil {
		fmt.Fprintf(&b, "backward of %v with %v; retain %v, wrt %v\n", p.Backward.Of, p.Backward.Seeds, p.Backward.Retain, p.Backward.Wrt)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return b.String() + err.Error()
	}
	return b.String() + string(text)
}
