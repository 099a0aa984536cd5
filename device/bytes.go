package device

import (
	"math"
	"strconv"
	"strings"
)

// Units of memory, powers of 1024.
const (
	KiB uint64 = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

type byteUnit struct {
	name string
	size uint64
}

// units is ordered from large to small.
var units = []byteUnit{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// readable are the units that ParseBytes knows. "B" is the end of all of them, and so the last.
var readable = append([]byteUnit{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}}, units...)

const allowedBytes = `a number of bytes such as 4096, or with a unit of B, KiB, MiB, GiB or TiB (powers of 1024), or KB, MB, GB or TB (powers of 1000), such as 1.5GiB`

// ParseBytes reads a number of bytes: "80GiB", "1.5 MiB", "80GB", "512B" or plain "4096". KiB to TiB are powers of 1024, and KB to TB,
// in which sellers count, powers of 1000: 80GB is 74.5GiB. Upper and lower case mean the same; a fraction is rounded down to whole bytes.
// Anything else is a *ParseError.
func ParseBytes(s string) (uint64, error) {
	n, _, err := parseBytes(s)
	return n, err
}

// parseBytes also reports whether s named a unit.
func parseBytes(s string) (n uint64, unit bool, err error) {
	fail := func() (uint64, bool, error) {
		return 0, false, &ParseError{What: "number of bytes", Value: s, Allowed: allowedBytes}
	}
	number, size := strings.TrimSpace(s), uint64(1)
	for _, u := range readable {
		if k := len(number) - len(u.name); k >= 0 && strings.EqualFold(number[k:], u.name) {
			number, size, unit = strings.TrimSpace(number[:k]), u.size, true
			break
		}
	}
	if whole, notWhole := strconv.ParseUint(number, 10, 64); notWhole == nil {
		if whole > math.MaxUint64/size {
			return fail()
		}
		return whole * size, unit, nil
	}
	if !unit || strings.Trim(number, "0123456789.") != "" { // no exponents, signs, infinities
		return fail()
	}
	f, err := timesUnit(number, size)
	if err != nil || f >= math.MaxUint64 {
		return fail()
	}
	return uint64(f), unit, nil
}

// timesUnit is a number with a fraction times the size of a unit. A power of 1000 is read as an exponent, as a product would be rounded:
// 0.29 times 100 is a little less than 29.
func timesUnit(number string, size uint64) (float64, error) {
	for exponent, power := 3, uint64(1000); exponent <= 12; exponent, power = exponent+3, power*1000 {
		if size == power {
			return strconv.ParseFloat(number+"e"+strconv.Itoa(exponent), 64)
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	return f * float64(size), err
}

// FormatBytes writes n for people, with at most two decimals: "80GiB", "1.5MiB", "513B". It is not exact.
func FormatBytes(n uint64) string {
	for _, u := range units {
		if n >= u.size && u.size > 1 {
			number := strconv.FormatFloat(float64(n)/float64(u.size), 'f', 2, 64)
			return strings.TrimSuffix(strings.TrimRight(number, "0"), ".") + u.name
		}
	}
	return strconv.FormatUint(n, 10) + "B"
}

// exactBytes writes n in the largest unit that divides it, so that ParseBytes gives n back.
func exactBytes(n uint64) string {
	for _, u := range units {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatUint(n/u.size, 10) + u.name
		}
	}
	return "0B"
}
