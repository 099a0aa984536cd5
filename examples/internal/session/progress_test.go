package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/stretchr/testify/require"
)

func draw(bar *progressbar.ProgressBar, steps int) {
	for range steps {
		_ = bar.Add(1)
	}
}

func TestProgress_InAFileIsTheLastStateAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(path)
	require.NoError(t, err)
	for range 2 {
		to, end := Progress(f)
		bar := progressbar.NewOptions(50, progressbar.OptionSetWriter(to), progressbar.OptionSetDescription("first"), progressbar.OptionShowCount(),
			progressbar.OptionThrottle(0))
		draw(bar, 50)
		bar.Describe("loss 0.5000")
		_ = bar.Finish()
		end()
	}
	_, end := Progress(f)
	end() // nothing was drawn
	require.NoError(t, f.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "\r")
	require.Regexp(t, `^(loss 0\.5000 100% \|█+\| \(50/50[^\n]*\) *[^\n]*\n){2}$`, string(text))
}

// A log that says nothing for hours looks like a program that hangs.
func TestProgress_OfALongRunIsALineEveryTenSeconds(t *testing.T) {
	var w bytes.Buffer
	now := time.Now()
	s := &lastState{to: &w, now: func() time.Time { return now }, told: now}
	bar := progressbar.NewOptions(50, progressbar.OptionSetWriter(s), progressbar.OptionShowCount(), progressbar.OptionThrottle(0))
	for range 50 {
		draw(bar, 1)
		now = now.Add(time.Second)
	}
	s.print()
	require.NotContains(t, w.String(), "\r")
	require.Equal(t, 5, bytes.Count(w.Bytes(), []byte("\n")), w.String())
	for _, count := range []string{"(10/50", "(20/50", "(30/50", "(40/50", "(50/50"} {
		require.Contains(t, w.String(), count)
	}
}

func TestSays_NothingOfWhatIsNotComputed(t *testing.T) {
	for device, want := range map[string]string{"host": "float16, loss 0.5", "sim:1GiB": "float16"} {
		s, err := Open(device, 1)
		require.NoError(t, err)
		require.Equal(t, want, s.Says("float16, ", "loss %.1f", 0.5))
		require.NoError(t, s.Close(nil))
	}
}

func TestProgress_OfAnInterruptedProgramIsWhereItWas(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	to, end := Progress(w)
	draw(progressbar.NewOptions(50, progressbar.OptionSetWriter(to), progressbar.OptionShowCount(), progressbar.OptionThrottle(0)), 10)
	end()
	require.NoError(t, w.Close())
	var text bytes.Buffer
	_, err = text.ReadFrom(r)
	require.NoError(t, err)
	require.Contains(t, text.String(), "(10/50")
	require.Equal(t, 1, bytes.Count(text.Bytes(), []byte("\n")))
	require.NotContains(t, text.String(), "\r")
}

func TestProgress_ElsewhereIsTheBarAsItIsDrawn(t *testing.T) {
	var w bytes.Buffer
	to, end := Progress(&w)
	draw(progressbar.NewOptions(5, progressbar.OptionSetWriter(to), progressbar.OptionThrottle(0)), 3)
	end()
	require.Greater(t, bytes.Count(w.Bytes(), []byte("\r")), 2)
	require.True(t, bytes.HasSuffix(w.Bytes(), []byte("\n")))
}

func TestLastState_OfPiecesIsThatOfTheWhole(t *testing.T) {
	s := &lastState{now: time.Now, told: time.Now()}
	for _, piece := range []string{"\rone", " two", "\r      \r", "three ", "four", "\r  ", "\r"} {
		_, err := s.Write([]byte(piece))
		require.NoError(t, err)
	}
	require.Equal(t, "three four", s.line)
}
