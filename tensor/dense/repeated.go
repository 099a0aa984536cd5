package dense

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cistern-ml/cistern/tensor"
)

// repeated is n bytes of val, a number or a bool as it lies in memory, over and over.
func repeated(op string, val any, n uint64) ([]byte, error) {
	switch v := val.(type) {
	case int: // encoding/binary takes types of one size on all systems
		val = int64(v)
	case uint:
		val = uint64(v)
	}
	one, err := binary.Append(nil, binary.NativeEndian, val)
	if err != nil || len(one) == 0 || n%uint64(len(one)) != 0 {
		return nil, &tensor.ValueError{Op: op, Detail: fmt.Sprintf("%d bytes cannot be set to a %T", n, val)}
	}
	return bytes.Repeat(one, int(n)/len(one)), nil
}
