package device

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cistern-ml/cistern/internal/excerpt"
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
	fail := func(why string, values ...any) (uint64, bool, error) {
		return 0, false, &ParseError{What: "number of bytes", Value: s, Allowed: allowedBytes, Reason: fmt.Sprintf(why, values...)}
	}
	const tooMany = "%s is more than 18446744073709551615 bytes, the most that 64 bits count"
	text := strings.TrimSpace(s)
	number, size := text, uint64(1)
	for _, u := range readable {
		if k := len(number) - len(u.name); k >= 0 && strings.EqualFold(number[k:], u.name) {
			number, size, unit = strings.TrimSpace(number[:k]), u.size, true
			break
		}
	}
	whole, notWhole := strconv.ParseUint(number, 10, 64)
	switch {
	case notWhole == nil && whole <= math.MaxUint64/size:
		return whole * size, unit, nil
	case notWhole == nil || errors.Is(notWhole, strconv.ErrRange):
		return fail(tooMany, excerpt.Quote(text))
	case number == "" || strings.Trim(number, "0123456789.") != "": // no exponents, signs, infinities
		return fail("%s", notBytes(text, number, unit))
	}
	f, err := timesUnit(number, size)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && f >= math.MaxUint64:
		return fail(tooMany, excerpt.Quote(text))
	case err != nil:
		return fail("%s is not a number", excerpt.Quote(number))
	case !unit:
		return fail("%s has no unit, and bytes are a whole number", excerpt.Quote(number))
	}
	return uint64(f), unit, nil
}

// hasExponent reports whether a text is a number like 1e3.
func hasExponent(text string) bool {
	i := strings.IndexAny(text, "eE")
	if i < 1 || strings.Trim(text[:i], "0123456789.") != "" {
		return false
	}
	exponent := strings.TrimLeft(text[i+1:], "+-")
	return exponent != "" && strings.Trim(exponent, "0123456789") == ""
}

// notBytes says what is wrong with a text that has other characters in its number, or none. The number may have the beginning of an unknown unit.
func notBytes(text, number string, unit bool) string {
	begin := strings.TrimLeft(text, "0123456789.")
	rest := strings.TrimSpace(begin)
	switch {
	case text == "":
		return "it is empty"
	case number == "" && unit:
		return "there is no number before the unit"
	case text[0] == '-':
		return excerpt.Quote(text) + " has a minus sign"
	case text[0] == '+':
		return excerpt.Quote(text) + " has a plus sign"
	case hasExponent(number):
		return excerpt.Quote(number) + " has an exponent"
	case strings.Trim(number, "0123456789.,") == "":
		return excerpt.Quote(number) + " has a comma, and fractions have a point"
	case len(begin) == len(text) || strings.ContainsAny(rest[:1], "0123456789."): // nothing before it, or two numbers
		return excerpt.Quote(number) + " is not a number"
	}
	return excerpt.Quote(rest) + " is not a unit"
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
