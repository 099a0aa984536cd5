package cpu

import (
	memory "encoding/binary"
	"math"
	"sync"

	"github.com/cistern-ml/cistern/device/dtype"
	"github.com/cistern-ml/cistern/kernels/op"
)

// Elements of other types than float32, by vectors, where all operands lie side by side: arithmetic of float64 and integers, and logic of all bits. What is left
// at the end, and every other call, is for the kernels of the table, which give the same bits.

// wordLoop is a loop over n bytes, a multiple of 64. Its second operand is a vector in place of all where step is 0, and not of these 32 bytes.
type wordLoop = func(n int, dst, a, b *byte, step int)

// wordLoops are the loops of an operation on float64, int64 and int32, nil where there is none.
type wordLoops [3]wordLoop

var wordTypes = [...]dtype.DType{dtype.Float64, dtype.Int64, dtype.Int32}

// bitLogic is a function of two bits, for all bits of a word: (a&b & m[0]) ^ (a & m[1]) ^ (b & m[2]) ^ m[3]. There is none that is not of this form.
type bitLogic [4]uint64

const (
	allBits  = 1<<64 - 1
	oneEach8 = 0x0101010101010101 // the bits of true
)

var (
	andBits = bitLogic{allBits, 0, 0, 0}
	orBits  = bitLogic{allBits, allBits, allBits, 0}
	xorBits = bitLogic{0, allBits, allBits, 0}
	notBool = bitLogic{0, allBits, 0, oneEach8}
	eqBool  = bitLogic{0, allBits, allBits, oneEach8}
)

// withWords puts vectors before the kernels of rows.
func withWords(all []op.Row) {
	loops := map[op.ID]*wordLoops{
		op.Add: &vector.addWords, op.AddScalar: &vector.addWords, op.Sub: &vector.subWords, op.Mul: &vector.mulWords, op.MulScalar: &vector.mulWords,
		op.Div: &vector.divWords, op.DivScalar: &vector.divWords, op.Sqrt: &vector.sqrtWords, op.Maximum: &vector.maxWords, op.Minimum: &vector.minWords,
		op.Abs: &vector.absWords, op.Neg: &vector.negWords,
	}
	logic := map[op.ID]*bitLogic{op.BitwiseAnd: &andBits, op.BitwiseOr: &orBits, op.BitwiseXor: &xorBits}
	for i := range all {
		f := &all[i].Funcs
		for k, d := range wordTypes {
			if l := loops[all[i].Op]; l != nil && f[d] != nil {
				f[d] = wordFunc(&l[k], nil, f[d])
			} else if m := logic[all[i].Op]; m != nil && f[d] != nil {
				f[d] = wordFunc(nil, m, f[d])
			}
		}
	}
}

// wordCall is a call in work. It is a job over groups of 64 bytes.
type wordCall struct {
	loop
	f      wordLoop
	logic  *bitLogic
	number [4]uint64 // in place of the second operand, if step is 0
	step   int
	last   op.Call // of the elements that are left
	views  [3]op.View
}

var wordCalls = sync.Pool{New: func() any { return new(wordCall) }}

// wordFunc is a Func of a loop, or of logic, where vectors have it, and of rest.
func wordFunc(f *wordLoop, m *bitLogic, rest op.Func) op.Func {
	return func(c *op.Call) error {
		if vector.logic == nil || f != nil && *f == nil {
			return rest(c)
		}
		j := wordCalls.Get().(*wordCall)
		defer wordCalls.Put(j)
		if j.logic = m; f != nil {
			j.f = *f
		}
		groups := j.begin(c)
		if groups == 0 {
			return rest(c)
		}
		split(groups, elementGrain/8, j)
		if done := groups * 64 / j.Size[0]; done < j.Total {
			err := rest(j.behind(c, done))
			j.last = op.Call{} // it holds nothing of its caller's
			return err
		}
		return nil
	}
}

// begin takes a call, and says how many groups it has: none if vectors cannot do it.
func (j *wordCall) begin(c *op.Call) int {
	one := c.I[0] == 1
	if c.Out[0].DType == dtype.Float64 {
		one = c.F[0] == 1
	}
	if c.Op == op.Add && !one {
		return 0
	}
	j.set(&c.Out[0], c.In)
	for k := range j.N {
		if j.Total == 0 || !j.full[k] {
			return 0
		}
	}
	j.step = 32
	if c.Op == op.AddScalar || c.Op == op.MulScalar || c.Op == op.DivScalar {
		j.step = 0
		word := uint64(c.I[0])
		switch c.Out[0].DType {
		case dtype.Float64:
			word = math.Float64bits(c.F[0])
		case dtype.Int32:
			word = word<<32 | uint64(uint32(word))
		}
		fillSlice(j.number[:], word)
	}
	return j.Total * j.Size[0] / 64
}

func (j *wordCall) run(lo, hi int) {
	n := 64 * (hi - lo)
	var at [3]*byte
	for k := range at {
		at[k] = &slice[byte](offset(j.Ptr[min(k, j.N-1)], 64*lo, 1), n)[0] // the only operand twice
	}
	switch {
	case j.logic != nil:
		vector.logic(n, at[0], at[1], at[2], (*[4]uint64)(j.logic))
	case j.step == 0:
		j.f(n, at[0], at[1], &bytesOf(j.number[:])[0], 0)
	default:
		j.f(n, at[0], at[1], at[2], 32)
	}
}

// behind is the call of the elements from place done on.
func (j *wordCall) behind(c *op.Call, done int) *op.Call {
	for k := range j.N {
		v := op.View{Ptr: offset(j.Ptr[k], done, j.Size[k]), DType: c.Out[0].DType, NDim: 1}
		v.Shape[0], v.Strides[0] = j.Total-done, 1
		j.views[k] = v
	}
	j.last = op.Call{Op: c.Op, Stream: c.Stream, Out: j.views[:1], In: j.views[1:j.N], F: c.F, I: c.I}
	return &j.last
}

// words is dst = a op b of elements of 8 bytes by a loop, and how many of the first it has computed.
func words[T float64 | int64](f wordLoop, dst, a, b []T) int {
	n := len(dst) &^ 7
	if f == nil || n == 0 {
		return 0
	}
	f(8*n, &bytesOf(dst)[0], &bytesOf(a)[0], &bytesOf(b)[0], 32)
	return n
}

// logicOf computes all whole groups of eight bools, and says how many that are.
func logicOf(m *bitLogic, dst, a, b []uint8) (n int) {
	if vector.logic != nil && len(dst) >= 32 {
		n = len(dst) &^ 31
		vector.logic(n, &dst[0], &a[0], &b[0], (*[4]uint64)(m))
	}
	for ; n+8 <= len(dst); n += 8 {
		v, w := memory.NativeEndian.Uint64(a[n:]), memory.NativeEndian.Uint64(b[n:])
		memory.NativeEndian.PutUint64(dst[n:], v&w&m[0]^v&m[1]^w&m[2]^m[3])
	}
	return n
}
