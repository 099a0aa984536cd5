package memory

import (
	"encoding/binary"
	"io"
	"math"
	"math/bits"
)

// The opcodes of Python's pickle format that are written here. PyTorch's memory viewer has a reader of its own, which knows
// these and few more. All are of protocol 4 or older.
const (
	opProto           = 0x80
	opStop            = '.'
	opMark            = '('
	opEmptyDict       = '}'
	opSetItems        = 'u' // dict, mark, key, value, ... -> dict
	opEmptyList       = ']'
	opAppends         = 'e' // list, mark, item, ... -> list
	opTuple2          = 0x86
	opMemoize         = 0x94 // what is on top gets the next number
	opBinGet          = 'h'  // what has the number in one byte
	opLongBinGet      = 'j'  // in four bytes
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opBinInt1         = 'K' // unsigned, one byte
	opBinInt2         = 'M' // unsigned, two bytes
	opBinInt          = 'J' // signed, four bytes
	opLong1           = 0x8a
	opBinFloat        = 'G'  // eight bytes, the highest first
	opShortBinUnicode = 0x8c // length in one byte
	opBinUnicode      = 'X'  // length in four bytes
)

// pickleBatch is how many items go into one APPENDS, as in Python: readers handle them at once.
const pickleBatch = 1000

// pickleDocument writes a pickle. Texts, frames and lists of frames are written once, and after that named by number.
type pickleDocument struct {
	w      io.Writer
	err    error  // the first of w
	buf    []byte // not yet written
	open   []int  // of each open list, the items since its last mark
	memo   uint32
	texts  map[string]uint32
	frame  map[Frame]uint32
	stacks map[*Frame]uint32 // by the first frame
}

func newPickleDocument(w io.Writer) *pickleDocument {
	d := &pickleDocument{w: w, texts: map[string]uint32{}, frame: map[Frame]uint32{}, stacks: map[*Frame]uint32{}}
	d.bytes(opProto, 4)
	return d
}

func (d *pickleDocument) bytes(b ...byte) {
	d.buf = append(d.buf, b...)
	if len(d.buf) >= 1<<15 {
		d.flush()
	}
}

// four writes an opcode with an argument of four bytes.
func (d *pickleDocument) four(op byte, n uint32) {
	d.bytes(op, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

func (d *pickleDocument) flush() {
	if d.err == nil {
		_, d.err = d.w.Write(d.buf)
	}
	d.buf = d.buf[:0]
}

func (d *pickleDocument) close() error {
	d.bytes(opStop)
	d.flush()
	return d.err
}

func (d *pickleDocument) beginDict()      { d.bytes(opEmptyDict, opMark) }
func (d *pickleDocument) key(name string) { d.text(name) }
func (d *pickleDocument) endDict()        { d.bytes(opSetItems) }

func (d *pickleDocument) beginList() {
	d.bytes(opEmptyList, opMark)
	d.open = append(d.open, 0)
}

func (d *pickleDocument) item() {
	n := &d.open[len(d.open)-1]
	if *n == pickleBatch {
		d.bytes(opAppends, opMark)
		*n = 0
	}
	*n++
}

func (d *pickleDocument) endList() {
	d.bytes(opAppends)
	d.open = d.open[:len(d.open)-1]
}

// get writes the number of something that is there already, if ok.
func (d *pickleDocument) get(n uint32, ok bool) bool {
	if ok && n < 1<<8 {
		d.bytes(opBinGet, byte(n))
	} else if ok {
		d.four(opLongBinGet, n)
	}
	return ok
}

// memoize gives what was written last a number.
func (d *pickleDocument) memoize() uint32 {
	d.bytes(opMemoize)
	d.memo++
	return d.memo - 1
}

func (d *pickleDocument) text(s string) {
	if n, ok := d.texts[s]; d.get(n, ok) {
		return
	}
	if len(s) < 1<<8 {
		d.bytes(opShortBinUnicode, byte(len(s)))
	} else {
		d.four(opBinUnicode, uint32(len(s)))
	}
	d.buf = append(d.buf, s...)
	d.texts[s] = d.memoize()
}

func (d *pickleDocument) frames(list []Frame) {
	if len(list) == 0 {
		d.beginList()
		d.endList()
		return
	}
	if n, ok := d.stacks[&list[0]]; d.get(n, ok) {
		return
	}
	d.beginList()
	for i := range list {
		d.item()
		if n, ok := d.frame[list[i]]; !d.get(n, ok) {
			list[i].write(d)
			d.frame[list[i]] = d.memoize()
		}
	}
	d.endList()
	d.stacks[&list[0]] = d.memoize()
}

func (d *pickleDocument) unsigned(n uint64) {
	switch {
	case n < 1<<8:
		d.bytes(opBinInt1, byte(n))
	case n < 1<<16:
		d.bytes(opBinInt2, byte(n), byte(n>>8))
	case n < 1<<31:
		d.four(opBinInt, uint32(n))
	default: // as few bytes as hold it with a sign bit, which is 0
		size := bits.Len64(n)/8 + 1
		d.bytes(opLong1, byte(size))
		for range size {
			d.bytes(byte(n))
			n >>= 8
		}
	}
}

func (d *pickleDocument) integer(n int64) {
	switch {
	case n >= 0:
		d.unsigned(uint64(n))
	case n >= math.MinInt32:
		d.four(opBinInt, uint32(n))
	default:
		d.bytes(opLong1, 8)
		d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(n))
	}
}

func (d *pickleDocument) pair(a, b uint64) {
	d.unsigned(a)
	d.unsigned(b)
	d.bytes(opTuple2)
}

func (d *pickleDocument) number(f float64) {
	d.bytes(opBinFloat)
	d.buf = binary.BigEndian.AppendUint64(d.buf, math.Float64bits(f))
}

func (d *pickleDocument) boolean(b bool) {
	if b {
		d.bytes(opNewTrue)
	} else {
		d.bytes(opNewFalse)
	}
}
