package autograd

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/cistern-ml/cistern/tensor"
)

// FreshGenerator returns a generator with a seed from the operating system: what random operations draw from when nobody
// gave them a generator. As in PyTorch, a program is reproducible only if it seeds.
func FreshGenerator() *tensor.Generator {
	var seed [8]byte
	rand.Read(seed[:]) // crypto/rand.Read never fails
	return tensor.NewGenerator(binary.LittleEndian.Uint64(seed[:]))
}
