package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// Tiles of pairs of bfloat16 are those of float32 with another instruction for products, VDPBF16PS: sums of float32 get the products of both elements of a
// pair. Neither avo nor Go's assembler know it, so that it is put into the file as bytes.

var pairFMA = regexp.MustCompile(`(?m)^\tVFMADD231PS +Z(\d+), Z(\d+), Z(\d+)$`)

// pairProducts puts VDPBF16PS in the place of products of whole registers.
func pairProducts(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = pairFMA.ReplaceAllFunc(text, func(line []byte) []byte {
		r := pairFMA.FindSubmatch(line)
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(string(r[1+i]))
		}
		return fmt.Appendf(nil, "\t%s // VDPBF16PS Z%d, Z%d, Z%d", dotBF16(n[0], n[1], n[2]), n[0], n[1], n[2])
	})
	return os.WriteFile(file, text, 0o644)
}

// dotBF16 is the encoding EVEX.512.F3.0F38.W0 52 /r, of registers of 64 bytes in the order of Go's assembler: the third is the sum. Bits that extend
// the numbers of registers are inverted.
func dotBF16(b, a, sum int) string {
	not := func(n, bit int) int { return 1 &^ (n >> bit) }
	code := []int{
		0x62,
		not(sum, 3)<<7 | not(b, 4)<<6 | not(b, 3)<<5 | not(sum, 4)<<4 | 2,
		(15&^a)<<3 | 1<<2 | 2,
		2<<5 | not(a, 4)<<3,
		0x52,
		3<<6 | sum&7<<3 | b&7,
	}
	text := ""
	for i, c := range code {
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("BYTE $0x%02x", c)
	}
	return text
}
