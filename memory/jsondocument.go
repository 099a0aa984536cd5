package memory

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
)

// jsonDocument writes JSON. Numbers are written in full; JavaScript reads them as doubles, which hold every address that
// devices have.
type jsonDocument struct {
	w      *bufio.Writer
	open   []bool            // of each open list or dict, whether it has something
	texts  map[string][]byte // quoted
	stacks map[*Frame][]byte // lists of frames, by the first frame
	buf    []byte
}

func newJSONDocument(w io.Writer) *jsonDocument {
	return &jsonDocument{w: bufio.NewWriter(w), texts: map[string][]byte{}, stacks: map[*Frame][]byte{}}
}

// raw writes bytes; the writer keeps its first error until close.
func (d *jsonDocument) raw(b []byte)      { _, _ = d.w.Write(b) }
func (d *jsonDocument) put(s string)      { _, _ = d.w.WriteString(s) }
func (d *jsonDocument) close() error      { d.put("\n"); return d.w.Flush() }
func (d *jsonDocument) begin(with string) { d.put(with); d.open = append(d.open, false) }
func (d *jsonDocument) end(with string)   { d.put(with); d.open = d.open[:len(d.open)-1] }

func (d *jsonDocument) beginDict()      { d.begin("{") }
func (d *jsonDocument) endDict()        { d.end("}") }
func (d *jsonDocument) beginList()      { d.begin("[") }
func (d *jsonDocument) endList()        { d.end("]") }
func (d *jsonDocument) key(name string) { d.item(); d.text(name); d.put(":") }

func (d *jsonDocument) item() {
	if last := &d.open[len(d.open)-1]; *last {
		d.put(",")
	} else {
		*last = true
	}
}

func (d *jsonDocument) text(s string) {
	q, ok := d.texts[s]
	if !ok {
		q, _ = json.Marshal(s) // of a string it does not fail
		d.texts[s] = q
	}
	d.raw(q)
}

func (d *jsonDocument) frames(frames []Frame) {
	if len(frames) == 0 {
		d.put("[]")
		return
	}
	text, ok := d.stacks[&frames[0]]
	if !ok {
		text, _ = json.Marshal(frames) // of strings and numbers it does not fail
		d.stacks[&frames[0]] = text
	}
	d.raw(text)
}

func (d *jsonDocument) integer(n int64) {
	d.buf = strconv.AppendInt(d.buf[:0], n, 10)
	d.raw(d.buf)
}

func (d *jsonDocument) unsigned(n uint64) {
	d.buf = strconv.AppendUint(d.buf[:0], n, 10)
	d.raw(d.buf)
}

func (d *jsonDocument) number(f float64) {
	d.buf = strconv.AppendFloat(d.buf[:0], f, 'g', -1, 64)
	d.raw(d.buf)
}

func (d *jsonDocument) pair(a, b uint64) {
	d.beginList()
	d.item()
	d.unsigned(a)
	d.item()
	d.unsigned(b)
	d.endList()
}

func (d *jsonDocument) boolean(b bool) { d.put(strconv.FormatBool(b)) }
