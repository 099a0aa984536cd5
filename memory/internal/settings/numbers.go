package settings

import (
	"math"
	"strconv"
	"strings"
)

const mib = 1 << 20

// ParseDecimal reads a number without sign: digits, perhaps with a point among them, perhaps with an exponent. strconv.ParseFloat
// alone also takes what no setting means: hexadecimal, underscores, infinity.
func ParseDecimal(text string) (float64, bool) {
	mantissa, exponent, has := text, "", false
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent, has = text[:i], text[i+1:], true
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent = strings.TrimPrefix(strings.TrimPrefix(exponent, "-"), "+")
	if !isDigits(whole+fraction) || has && !isDigits(exponent) {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// UintText writes a number.
func UintText(n uint64) string { return strconv.FormatUint(n, 10) }

// FloatText writes a number so that ParseDecimal reads the same one.
func FloatText(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// PowerOfTwo reports whether n is one.
func PowerOfTwo(n uint64) bool { return n != 0 && n&(n-1) == 0 }

// MBText writes a number of bytes in MiB, exactly: what is not whole has a decimal fraction.
func MBText(n uint64) string {
	text := strconv.FormatUint(n/mib, 10)
	if rest := n % mib; rest != 0 {
		text += strconv.FormatFloat(float64(rest)/mib, 'f', -1, 64)[1:] // without the 0 before the point
	}
	return text
}

// ParseMB is the opposite of MBText. It reports false for what is not a positive number of bytes.
func ParseMB(text string) (uint64, bool) {
	whole, fraction, has := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole, 10, 44)
	if err != nil {
		return 0, false
	}
	n *= mib
	if has {
		f, err := strconv.ParseFloat("0."+fraction, 64)
		rest := f * mib
		if err != nil || !isDigits(fraction) || rest != math.Trunc(rest) {
			return 0, false
		}
		n += uint64(rest)
	}
	return n, n != 0
}
