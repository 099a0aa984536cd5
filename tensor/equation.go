package tensor

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cistern-ml/cistern/internal/excerpt"
)

// equation is what Einsum is told: the labels of the dimensions of each operand, and of the result. Labels below firstDots are
// letters; the dimensions that "..." stands for are numbered from firstDots on, beginning with the last.
type equation struct {
	text string
	in   [][]int
	out  []int
	size map[int]int // elements along each label
}

const firstDots = 52

// parseEquation reads an equation such as "bij,bjk->bik" for operands of the given shapes, and checks that they fit.
func parseEquation(name, text string, shapes []Shape) (*equation, error) {
	e := &equation{text: excerpt.Of(text), size: map[int]int{}}
	left, right, explicit := strings.Cut(strings.ReplaceAll(text, " ", ""), "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(shapes) {
		return nil, valueErr(name, "equation %q has %d operands; %d are given", e.text, len(terms), len(shapes))
	}
	dots := 0 // dimensions of the longest "..."
	for i, term := range terms {
		letters := len(term)
		if strings.Contains(term, "...") {
			letters -= 3
			dots = max(dots, len(shapes[i])-letters)
		} else if letters != len(shapes[i]) {
			return nil, e.misnamed(name, shapes, i, letters)
		}
		if letters > len(shapes[i]) {
			return nil, e.misnamed(name, shapes, i, letters)
		}
		labels, err := e.labels(name, term, len(shapes[i])-letters)
		if err != nil {
			return nil, err
		}
		e.in = append(e.in, labels)
	}
	if err := e.measure(name, shapes); err != nil {
		return nil, err
	}
	return e, e.result(name, right, explicit, dots)
}

// misnamed refuses a term of other dimensions than its operand has.
func (e *equation) misnamed(name string, shapes []Shape, i, letters int) error {
	return shapeErr(name, shapes, "equation %q names %s of the %s operand, which has %d", e.text, counted(letters, "dimension"), ordinal(i), len(shapes[i]))
}

// labels reads the term of one operand, in which "..." stands for so many dimensions.
func (e *equation) labels(name, term string, dots int) ([]int, error) {
	var labels []int
	before, after, found := strings.Cut(term, "...")
	for i, part := range []string{before, after} {
		if i == 1 && found {
			for k := dots - 1; k >= 0; k-- {
				labels = append(labels, firstDots+k)
			}
		}
		for _, c := range part {
			if c > unicode.MaxASCII || !unicode.IsLetter(c) {
				return nil, valueErr(name, "equation %q: %q is no label; letters and one \"...\" an operand are", e.text, string(c))
			}
			label := int(c - 'A')
			if c >= 'a' {
				label = 26 + int(c-'a')
			}
			labels = append(labels, label)
		}
	}
	return labels, nil
}

// measure finds the size of each label. Dimensions of one element broadcast.
func (e *equation) measure(name string, shapes []Shape) error {
	for i, labels := range e.in {
		for d, label := range labels {
			have, known := e.size[label]
			switch n := shapes[i][d]; {
			case !known || have == 1:
				e.size[label] = n
			case n != have && n != 1:
				return shapeErr(name, shapes, "equation %q: dimension %d of the %s operand has %s, where another has %d", e.text, d, ordinal(i), counted(n, "element"), have)
			}
		}
	}
	return nil
}

// result reads the labels of the result, or makes them: the dimensions of "...", then the letters that stand once, in order.
func (e *equation) result(name, right string, explicit bool, dots int) error {
	if !explicit {
		count := map[int]int{}
		for _, label := range slices.Concat(e.in...) {
			count[label]++
		}
		for k := dots - 1; k >= 0; k-- {
			e.out = append(e.out, firstDots+k)
		}
		for label := range firstDots {
			if count[label] == 1 {
				e.out = append(e.out, label)
			}
		}
		return nil
	}
	var err error
	if e.out, err = e.labels(name, right, dots); err != nil {
		return err
	}
	for i, label := range e.out {
		if _, known := e.size[label]; !known {
			return valueErr(name, "equation %q: the result has a label that no operand has", e.text)
		}
		if slices.Contains(e.out[:i], label) {
			return valueErr(name, "equation %q: the result has a label twice", e.text)
		}
	}
	return nil
}

// term is an operand on the way: a tensor under a layout in which each label stands for one dimension of its whole size.
type term struct {
	t      *Tensor
	l      layout
	labels []int
	made   bool // a temporary
}

func (x *term) release() {
	if x.made {
		x.t.Release()
	}
}

// term is t with the labels of an operand. Labels that stand twice take the diagonal, and dimensions that broadcast are dropped: the
// operand says nothing about them.
func (e *equation) term(name string, t *Tensor, labels []int) (term, error) {
	x := term{t: t, l: t.layout}
	x.l.ndim = 0
	for d, label := range labels {
		n, stride := t.layout.shape[d], t.layout.strides[d]
		if n == 1 && e.size[label] != 1 {
			continue
		}
		if at := slices.Index(x.labels, label); at >= 0 {
			x.l.strides[at] += stride
			continue
		}
		x.labels = append(x.labels, label)
		x.l.shape[x.l.ndim], x.l.strides[x.l.ndim] = n, stride
		x.l.ndim++
	}
	for d, label := range labels { // a label may stand for 1 and for n elements of one operand
		if n := t.layout.shape[d]; n != e.size[label] && slices.Contains(x.labels, label) {
			return x, shapeErr(name, []Shape{t.Shape()}, "equation %q: a label has dimensions of 1 and %d elements", e.text, e.size[label])
		}
	}
	return x, nil
}

// arranged is the layout of x with its labels in the given order. Labels that it does not have become dimensions of one element,
// or of their whole size if full.
func (e *equation) arranged(x *term, order []int, full bool) layout {
	l := layout{ndim: len(order), offset: x.l.offset}
	for i, label := range order {
		if at := slices.Index(x.labels, label); at >= 0 {
			l.shape[i], l.strides[i] = x.l.shape[at], x.l.strides[at]
		} else if l.shape[i] = 1; full {
			l.shape[i] = e.size[label]
		}
	}
	return l
}
