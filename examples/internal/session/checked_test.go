package session

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked has one flag of each kind.
func checked(w io.Writer) *Checked {
	c := NewChecked("p", w)
	var a, b int
	var part, positive float64
	var device string
	c.Count(&a, "a", 3, 1, 100, "things")
	c.Count(&b, "b", 3, 1, 100, "others")
	c.Product(200, &a, "a", &b, "b")
	c.Part(&part, "part", 1, "a part")
	c.Positive(&positive, "positive", 1, "a rate")
	c.DeviceFlag(&device, "where to run")
	new(Watch).AddFlags(c)
	return c
}

func TestChecked_RefusesWhatIsOutOfBounds(t *testing.T) {
	huge := strconv.Itoa(math.MaxInt)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"", nil},
		{"", []string{"-a", "100", "-b", "2"}},
		{"", []string{"-part", "0", "-positive", "1e-9", "-device", "cuda:7"}}, // whether it is there is not asked here
		{"-a is 0, must be 1 to 100", []string{"-a", "0"}},
		{"-a is 101, must be 1 to 100", []string{"-a", "101"}},
		{"-b is " + huge + ", must be 1 to 100", []string{"-a", "2", "-b", huge}},
		{"-a is 100 and -b 3, their product must be at most 200", []string{"-a", "100", "-b", "3"}},
		{"-part is 1.5, must be 0 to 1", []string{"-part", "1.5"}},
		{"-part is NaN, must be 0 to 1", []string{"-part", "NaN"}},
		{"-positive is +Inf, must be positive and finite", []string{"-positive", "Inf"}},
		{"-positive is 0, must be positive and finite", []string{"-positive", "0"}},
		{"-device: ", []string{"-device", "nope"}},
		{"-device: ", []string{"-device", "sim:1"}},
		{`-snapshot is "x.txt"`, []string{"-snapshot", "x.txt"}},
		{`-memory-report is "x.png"`, []string{"-memory-report", "x.png"}},
		{`-memory-http is "6060"`, []string{"-memory-http", "6060"}},
		{`-memory-http is "localhost:none"`, []string{"-memory-http", "localhost:none"}},
		{`unexpected argument "more"`, []string{"more"}},
	} {
		err := checked(io.Discard).Read(c.args)
		if c.want == "" {
			require.NoError(t, err, c.args)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

func TestChecked_HelpTellsTheBounds(t *testing.T) {
	var w bytes.Buffer
	require.True(t, errors.Is(checked(&w).Read([]string{"-h"}), flag.ErrHelp))
	for _, want := range []string{"things; 1 to 100, and -a times -b up to 200 (default 3)", "others; 1 to 100, and -a times -b up to 200 (default 3)",
		"a part; must be 0 to 1", "a rate; must be positive and finite"} {
		require.Contains(t, w.String(), want)
	}
}
