package tensor

import (
	"fmt"
	"math/bits"
	"sync"
)

// Generator is a source of random numbers that does not depend on the device: Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", 2011), whose blocks of four 32-bit words are a function of a key, the seed, and of
// the block's number. Each use takes the blocks that it needs and moves the offset past them, so that uses in the same
// order give the same numbers. It is safe for concurrent use; then the order is that of the calls.
type Generator struct {
	mu    sync.Mutex
	state GeneratorState
	use   *generatorUse // in the capture that goes on, nil if there is none
}

// GeneratorState is all that a Generator is: saved with a checkpoint, it continues the sequence.
type GeneratorState struct {
	Seed   uint64 `json:"seed"`
	Offset uint64 `json:"offset"` // blocks of four words used so far

	use *generatorUse // in the capture that the state is of, nil for states outside of one
}

// String is the state in the form of a struct that is printed, "{Seed:7 Offset:250}".
func (s GeneratorState) String() string { return fmt.Sprintf("{Seed:%d Offset:%d}", s.Seed, s.Offset) }

// NewGenerator starts the sequence of a seed.
func NewGenerator(seed uint64) *Generator {
	return &Generator{state: GeneratorState{Seed: seed}}
}

// State returns the state, the zero one of a nil generator.
func (g *Generator) State() GeneratorState {
	if g == nil {
		return GeneratorState{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

// SetState goes to a state. A nil generator has none.
func (g *Generator) SetState(s GeneratorState) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = s
}

// String is the generator in one line, as in "generator: seed 1, offset 12".
func (g *Generator) String() string {
	if g == nil {
		return "generator (nil)"
	}
	s := g.State()
	return fmt.Sprintf("generator: seed %d, offset %d", s.Seed, s.Offset)
}

// given refuses a nil generator.
func (g *Generator) given(name string) error {
	if g == nil {
		return valueErr(name, "the generator is nil")
	}
	return nil
}

// take reserves the blocks for n words: block offset+i/4 holds word i.
func (g *Generator) take(n int) GeneratorState { return g.Reserve(uint64(n+3) / 4) }

// Reserve takes blocks blocks of four words, and returns the state at which they begin: for operations that compute their
// numbers themselves, when and as often as they need them. A nil generator gives the zero state.
func (g *Generator) Reserve(blocks uint64) GeneratorState {
	if g == nil {
		return GeneratorState{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state
	g.state.Offset += blocks
	return s
}

// maxPerm is the length of the longest permutation: 2 GiB of Go memory.
const maxPerm = 1 << 28

// RandPerm is a random permutation of 0..n-1, on the host: the order in which to read a data set. It is a *ValueError if there is
// no generator, or if n is negative or more than 2^28, which would take more than 2 GiB of Go memory.
func RandPerm(gen *Generator, n int) ([]int64, error) {
	if err := gen.given("RandPerm"); err != nil {
		return nil, err
	}
	if n < 0 || n > maxPerm {
		return nil, valueErr("RandPerm", "n is %d; it must be in 0..%d", n, maxPerm)
	}
	perm := make([]int64, n)
	if n == 0 {
		return perm, nil
	}
	s := gen.take(2 * n)
	if s.use != nil { // the permutation would be the same in each replay
		return nil, &CaptureError{Op: "RandPerm", Detail: "a permutation is made on the host: make it before the step, and give it as an input", Site: programLine()}
	}
	seed, offset := s.Seed, s.Offset
	var block [4]uint32
	for i := range perm {
		// Fisher-Yates. Two words make a 64-bit number, and the upper half of its product with i+1 is uniform on 0..i, but
		// for a bias below i/2^64.
		if i%2 == 0 {
			block = philox(seed, offset+uint64(i/2))
		}
		word := uint64(block[i%2*2])<<32 | uint64(block[i%2*2+1])
		j, _ := bits.Mul64(word, uint64(i+1))
		perm[i] = perm[j]
		perm[j] = int64(i)
	}
	return perm, nil
}

// philox is block number counter of the sequence of a key.
func philox(key, counter uint64) [4]uint32 {
	const (
		multiplier0 = 0xD2511F53
		multiplier1 = 0xCD9E8D57
		weyl0       = 0x9E3779B9
		weyl1       = 0xBB67AE85
	)
	c := [4]uint32{uint32(counter), uint32(counter >> 32)}
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		hi0, lo0 := bits.Mul32(multiplier0, c[0])
		hi1, lo1 := bits.Mul32(multiplier1, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ k0, lo1, hi0 ^ c[3] ^ k1, lo0}
		k0 += weyl0
		k1 += weyl1
	}
	return c
}
