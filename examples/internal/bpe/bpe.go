// Package bpe is the byte-level byte-pair encoding of GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019;
// Sennrich et al., "Neural machine translation of rare words with subword units", 2016), read from the two files in which it is exchanged,
// vocab.json and merges.txt.
package bpe

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/pkg/errors"
)

// Tokenizer turns text into numbers of tokens and back. It is for one goroutine at a time.
type Tokenizer struct {
	ids    map[string]int64 // of tokens, whose bytes are written as characters
	tokens map[int64]string
	ranks  map[pair]int // a lower one is merged first
	words  map[string][]int64
	most   int64
}

// pair is two parts of a word that become one.
type pair struct{ left, right string }

// maxWords is how many words a Tokenizer remembers.
const maxWords = 1 << 16

// Load reads both files.
func Load(vocab, merges string) (*Tokenizer, error) {
	v, err := os.ReadFile(vocab)
	if err != nil {
		return nil, errors.Wrap(err, "reading the vocabulary")
	}
	m, err := os.ReadFile(merges)
	if err != nil {
		return nil, errors.Wrap(err, "reading the merges")
	}
	t, err := New(v, string(m))
	return t, errors.Wrap(err, vocab+", "+merges)
}

// New makes a Tokenizer of the contents of both files.
func New(vocab []byte, merges string) (*Tokenizer, error) {
	t := &Tokenizer{tokens: map[int64]string{}, ranks: map[pair]int{}, words: map[string][]int64{}}
	if err := json.Unmarshal(vocab, &t.ids); err != nil {
		return nil, errors.Wrap(err, "the vocabulary")
	}
	for token, id := range t.ids {
		if other, twice := t.tokens[id]; twice || id < 0 || id > math.MaxInt32 {
			return nil, errors.Errorf("the vocabulary has number %d for %q and %q", id, token, other)
		}
		t.tokens[id], t.most = token, max(t.most, id)
	}
	for number, line := range strings.Split(merges, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || number == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, two := strings.Cut(line, " ")
		if !two || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, errors.Errorf("line %d of the merges is not two parts: %q", number+1, line)
		}
		if _, there := t.ids[left+right]; !there {
			return nil, errors.Errorf("line %d of the merges makes %q, which the vocabulary has not", number+1, left+right)
		}
		if _, twice := t.ranks[pair{left, right}]; !twice {
			t.ranks[pair{left, right}] = len(t.ranks)
		}
	}
	return t, nil
}

// Len is one more than the highest number of a token.
func (t *Tokenizer) Len() int { return int(t.most) + 1 }

// ID is the number of a token by its text in the vocabulary, such as "<|endoftext|>", which Encode makes of no text.
func (t *Tokenizer) ID(token string) (int64, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Encode is the tokens of a text. A vocabulary that has not all bytes cannot encode every text.
func (t *Tokenizer) Encode(text string) ([]int64, error) {
	var ids []int64
	for len(text) > 0 {
		n := word(text)
		of, err := t.encodeWord(text[:n])
		if err != nil {
			return nil, err
		}
		ids, text = append(ids, of...), text[n:]
	}
	return ids, nil
}

func (t *Tokenizer) encodeWord(w string) ([]int64, error) {
	if ids, known := t.words[w]; known {
		return ids, nil
	}
	parts := make([]string, len(w))
	for i := range len(w) {
		parts[i] = string(charOf[w[i]])
	}
	var ids []int64
	for _, part := range t.merged(parts) {
		id, ok := t.ids[part]
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no token for a part of %q", w)
		}
		ids = append(ids, id)
	}
	if len(t.words) < maxWords {
		t.words[w] = ids
	}
	return ids, nil
}

// merged joins neighbours, those of the lowest rank first, until no two can be joined.
func (t *Tokenizer) merged(parts []string) []string {
	for len(parts) > 1 {
		best, lowest := pair{}, math.MaxInt
		for i := range len(parts) - 1 {
			p := pair{parts[i], parts[i+1]}
			if rank, ok := t.ranks[p]; ok && rank < lowest {
				best, lowest = p, rank
			}
		}
		if lowest == math.MaxInt {
			return parts
		}
		joined := parts[:0]
		for i := 0; i < len(parts); i++ {
			if i+1 < len(parts) && parts[i] == best.left && parts[i+1] == best.right {
				joined = append(joined, best.left+best.right)
				i++
				continue
			}
			joined = append(joined, parts[i])
		}
		parts = joined
	}
	return parts
}

// Decode is the text of tokens. A number without a token, and bytes that are no UTF-8, become U+FFFD.
func (t *Tokenizer) Decode(ids []int64) string {
	var text []byte
	for _, id := range ids {
		token, ok := t.tokens[id]
		if !ok {
			text = append(text, "\uFFFD"...)
			continue
		}
		for _, r := range token {
			if b, ok := byteOf[r]; ok {
				text = append(text, b)
				continue
			}
			text = append(text, string(r)...)
		}
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// charOf is how each byte is written in both files: visible characters as themselves, the others as those from U+0100 on, in order.
var charOf, byteOf = func() (chars [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		chars[b] = rune(b)
		if visible := b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad; !visible {
			chars[b] = next
			next++
		}
		bytes[chars[b]] = byte(b)
	}
	return chars, bytes
}()
