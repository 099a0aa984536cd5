package memory

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
)

// readPickle is a reader for the opcodes that pickleDocument writes, and no others: the rules of Python's pickle machine.
// Dicts become map[string]any, lists and tuples []any, numbers *big.Int or float64.
func readPickle(data []byte) (value any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed pickle: %v", r)
		}
	}()
	m := pickleMachine{data: data}
	for !m.step() {
	}
	if len(m.stack) != 1 || len(m.marks) != 0 || len(m.data) != 0 {
		return nil, fmt.Errorf("%d values, %d marks and %d bytes left over", len(m.stack), len(m.marks), len(m.data))
	}
	return plain(m.stack[0]), nil
}

type pickleMachine struct {
	data  []byte
	stack []any
	marks []int
	memo  []any
}

type pickleList struct{ items []any }

func (m *pickleMachine) push(v any) { m.stack = append(m.stack, v) }

func (m *pickleMachine) next(n int) []byte {
	b := m.data[:n]
	m.data = m.data[n:]
	return b
}

// toMark takes what was pushed since the last mark.
func (m *pickleMachine) toMark() []any {
	mark := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[mark:]
	m.stack = m.stack[:mark]
	return items
}

// step executes one opcode and reports whether it was the last.
func (m *pickleMachine) step() (done bool) {
	switch op := m.next(1)[0]; op {
	case opProto:
		if v := m.next(1)[0]; v < 2 || v > 4 {
			panic(fmt.Sprintf("protocol %d", v))
		}
	case opStop:
		return true
	case opMark:
		m.marks = append(m.marks, len(m.stack))
	case opEmptyDict:
		m.push(map[string]any{})
	case opSetItems:
		items := m.toMark()
		dict := m.stack[len(m.stack)-1].(map[string]any)
		for i := 0; i < len(items); i += 2 {
			dict[items[i].(string)] = items[i+1]
		}
	case opEmptyList:
		m.push(&pickleList{})
	case opAppends:
		items := m.toMark()
		if len(items) > 1000 {
			panic("a batch of more than 1000 items")
		}
		list := m.stack[len(m.stack)-1].(*pickleList)
		list.items = append(list.items, items...)
	case opTuple2:
		n := len(m.stack)
		m.stack = append(m.stack[:n-2], []any{m.stack[n-2], m.stack[n-1]})
	case opMemoize:
		m.memo = append(m.memo, m.stack[len(m.stack)-1])
	case opBinGet:
		m.push(m.memo[m.next(1)[0]])
	case opLongBinGet:
		m.push(m.memo[binary.LittleEndian.Uint32(m.next(4))])
	case opNewTrue, opNewFalse:
		m.push(op == opNewTrue)
	case opShortBinUnicode:
		m.push(string(m.next(int(m.next(1)[0]))))
	case opBinUnicode:
		m.push(string(m.next(int(binary.LittleEndian.Uint32(m.next(4))))))
	default:
		m.push(m.number(op))
	}
	return false
}

func (m *pickleMachine) number(op byte) any {
	switch op {
	case opBinInt1:
		return big.NewInt(int64(m.next(1)[0]))
	case opBinInt2:
		return big.NewInt(int64(binary.LittleEndian.Uint16(m.next(2))))
	case opBinInt:
		return big.NewInt(int64(int32(binary.LittleEndian.Uint32(m.next(4)))))
	case opLong1:
		little := m.next(int(m.next(1)[0]))
		n := new(big.Int)
		for i := range little {
			n.Lsh(n, 8).Or(n, big.NewInt(int64(little[len(little)-1-i])))
		}
		if little[len(little)-1] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(little))))
		}
		return n
	case opBinFloat:
		return math.Float64frombits(binary.BigEndian.Uint64(m.next(8)))
	}
	panic(fmt.Sprintf("opcode %#x", op))
}

// plain replaces the lists, which have an identity while the pickle is read, and writes integers as JSON does.
func plain(v any) any {
	switch v := v.(type) {
	case *pickleList:
		items := make([]any, len(v.items))
		for i := range items {
			items[i] = plain(v.items[i])
		}
		return items
	case []any:
		items := make([]any, len(v))
		for i := range items {
			items[i] = plain(v[i])
		}
		return items
	case map[string]any:
		dict := map[string]any{}
		for k := range v {
			dict[k] = plain(v[k])
		}
		return dict
	}
	return v
}
