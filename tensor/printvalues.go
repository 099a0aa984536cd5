package tensor

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cells are the elements of t in row-major order, each by a format of package fmt.
func (t *Tensor) cells(format string) ([]string, error) {
	switch t.dtype {
	case Float64:
		return cellsOf[float64](t, format)
	case Int64:
		return cellsOf[int64](t, format)
	case Int32:
		return cellsOf[int32](t, format)
	case Uint8:
		return cellsOf[uint8](t, format)
	case Bool:
		return cellsOf[bool](t, format)
	case Float32:
		return cellsOf[float32](t, format)
	}
	values, err := t.Float64s() // half precision, which float32 prints with the digits that it needs
	if err != nil {
		return nil, err
	}
	single := make([]float32, len(values))
	for i, v := range values {
		single[i] = float32(v)
	}
	return formatted(single, format), nil
}

func cellsOf[T Element](t *Tensor, format string) ([]string, error) {
	data, err := ToSlice[T](t)
	if err != nil {
		return nil, err
	}
	return formatted(data, format), nil
}

func formatted[T any](data []T, format string) []string {
	cells := make([]string, len(data))
	for i, v := range data {
		cells[i] = fmt.Sprintf(format, v)
	}
	return cells
}

// cellFormat is the format of one element: the flags, width and precision of s, and its verb if the type has it, else %v.
func cellFormat(s fmt.State, verb rune, d DType) string {
	verbs := "bdoOxX"
	switch {
	case d.IsFloat():
		verbs = "beEfFgGxX"
	case d == Bool:
		verbs = "t"
	}
	var b strings.Builder
	b.WriteByte('%')
	for _, flag := range "+ 0" {
		if s.Flag(int(flag)) {
			b.WriteRune(flag)
		}
	}
	if w, ok := s.Width(); ok {
		b.WriteString(strconv.Itoa(w))
	}
	if p, ok := s.Precision(); ok && d.IsFloat() {
		b.WriteByte('.')
		b.WriteString(strconv.Itoa(p))
	}
	if !strings.ContainsRune(verbs, verb) {
		verb = 'v'
	}
	b.WriteRune(verb)
	return b.String()
}

// printer lays cells out: of each dimension those places that are shown, in the middle of which others may be missing.
type printer struct {
	cells  []string
	places [][]int // along each dimension: how far into cells each place is
	cut    []bool  // whether the middle is missing
	width  int
	out    bytes.Buffer
}

// newPrinter prints cells, of the shape held: all that there is, or along some dimensions only both ends of what whole has.
func newPrinter(cells []string, held, whole Shape, all bool) *printer {
	p := &printer{cells: cells, places: make([][]int, len(held)), cut: make([]bool, len(held))}
	stride := len(cells)
	for d, n := range held {
		stride /= n
		p.cut[d] = !all && whole[d] > 2*printEnd
		for i := range n {
			if !p.cut[d] || i < printEnd || i >= n-printEnd {
				p.places[d] = append(p.places[d], i*stride)
			}
		}
	}
	p.measure(0, 0)
	return p
}

// measure finds the width of the widest cell that is shown, from place at on along dimension dim.
func (p *printer) measure(dim, at int) {
	if dim == len(p.places) {
		p.width = max(p.width, utf8.RuneCountInString(p.cells[at]))
		return
	}
	for _, place := range p.places[dim] {
		p.measure(dim+1, at+place)
	}
}

// line prints all cells in one line, of many only those at both ends unless all are asked for.
func (p *printer) line(all bool) {
	cells := p.cells
	if len(cells) > 2*printEnd && !all {
		cells = slices.Concat(cells[:printEnd], []string{"..."}, cells[len(cells)-printEnd:])
	}
	p.out.WriteByte('[')
	p.out.WriteString(strings.Join(cells, " "))
	p.out.WriteByte(']')
}

func (p *printer) values() {
	switch len(p.places) {
	case 0:
		p.out.WriteString(p.cells[0])
	case 1:
		p.row("[", "]", 0)
	default:
		p.matrices(0, 0)
	}
}

// matrices prints what dimension dim and those after it have, from cell at on.
func (p *printer) matrices(dim, at int) {
	if dim == len(p.places)-2 {
		p.matrix(at)
		return
	}
	for i, place := range p.places[dim] {
		if i > 0 {
			p.out.WriteByte('\n')
		}
		if p.cut[dim] && i == printEnd {
			p.out.WriteString("...\n\n")
		}
		p.matrices(dim+1, at+place)
	}
}

func (p *printer) matrix(at int) {
	dim := len(p.places) - 2
	rows := p.places[dim]
	for i, place := range rows {
		if p.cut[dim] && i == printEnd {
			p.out.WriteString(".\n.\n.\n")
		}
		open, end := "⎢", "⎥"
		switch {
		case len(rows) == 1:
			open, end = "[", "]"
		case i == 0:
			open, end = "⎡", "⎤"
		case i == len(rows)-1:
			open, end = "⎣", "⎦"
		}
		p.row(open, end, at+place)
		p.out.WriteByte('\n')
	}
}

func (p *printer) row(open, end string, at int) {
	p.out.WriteString(open)
	last := len(p.places) - 1
	for i, place := range p.places[last] {
		switch {
		case p.cut[last] && i == printEnd:
			p.out.WriteString("  ... ")
		case i > 0:
			p.out.WriteString("  ")
		}
		fmt.Fprintf(&p.out, "%*s", p.width, p.cells[at+place])
	}
	p.out.WriteString(end)
}
