// Package text makes batches of characters of a book for language models.
package text

import (
	"go/build"
	"os"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/cistern-ml/cistern/tensor"
)

// Corpus is a text as numbers of characters, in two parts: one to train on, and the last tenth to validate with.
type Corpus struct {
	Alphabet   []rune // a character's number is its place here; in order
	Train, Val []int64
}

// opticks is the text that every Go installation carries: Newton's Opticks.
const opticks = "src/testdata/Isaac.Newton-Opticks.txt"

// Load reads a text in UTF-8; without a name, the one that came with Go.
func Load(file string) (*Corpus, error) {
	if file == "" {
		file = filepath.Join(build.Default.GOROOT, filepath.FromSlash(opticks))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Wrap(err, "reading the text (-text names another)")
	}
	return New(string(data))
}

// New makes a corpus of a text.
func New(text string) (*Corpus, error) {
	runes := []rune(text)
	c := &Corpus{Alphabet: slices.Clone(runes)}
	slices.Sort(c.Alphabet)
	c.Alphabet = slices.Compact(c.Alphabet)
	ids := make([]int64, len(runes))
	for i, r := range runes {
		at, _ := slices.BinarySearch(c.Alphabet, r)
		ids[i] = int64(at)
	}
	split := len(ids) - len(ids)/10
	c.Train, c.Val = ids[:split], ids[split:]
	if len(c.Val) == 0 {
		return nil, errors.Errorf("a text of %d characters is too short to train on", len(ids))
	}
	return c, nil
}

// Decode turns numbers into text. Numbers without a character, which a padded vocabulary has, become U+FFFD.
func (c *Corpus) Decode(ids []int64) string {
	runes := make([]rune, len(ids))
	for i, id := range ids {
		runes[i] = '\uFFFD'
		if id >= 0 && int(id) < len(c.Alphabet) {
			runes[i] = c.Alphabet[id]
		}
	}
	return string(runes)
}

// Encode is the inverse of Decode for characters of the alphabet; others are left out.
func (c *Corpus) Encode(text string) []int64 {
	var ids []int64
	for _, r := range text {
		if at, ok := slices.BinarySearch(c.Alphabet, r); ok {
			ids = append(ids, int64(at))
		}
	}
	return ids
}

// Random makes the batch of a training step: the starts are a function of seed and step alone, so that training continues
// with the same batches after a break, and programs in other languages can make them too. Start i of a step is
// splitmix64(seed<<40 + step<<16 + i) modulo the number of starts.
func Random(e tensor.Exec, ids []int64, seed, step uint64, batch, seq int) (x, y *tensor.Tensor, err error) {
	starts := make([]int, batch)
	for i := range starts {
		starts[i] = int(splitmix64(seed<<40+step<<16+uint64(i)) % uint64(len(ids)-seq))
	}
	return Windows(e, ids, starts, seq)
}

// Windows makes a batch: x, [len(starts), seq], are the characters from each start on, and y those one later.
func Windows(e tensor.Exec, ids []int64, starts []int, seq int) (x, y *tensor.Tensor, err error) {
	in, out := make([]int64, 0, len(starts)*seq), make([]int64, 0, len(starts)*seq)
	for _, at := range starts {
		in = append(in, ids[at:at+seq]...)
		out = append(out, ids[at+1:at+seq+1]...)
	}
	if x, err = tensor.FromSlice(e, in, len(starts), seq); err != nil {
		return nil, nil, err
	}
	if y, err = tensor.FromSlice(e, out, len(starts), seq); err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, y, nil
}

// splitmix64 is the generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014), as a
// function of its state.
func splitmix64(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
