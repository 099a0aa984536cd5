package session

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cistern-ml/cistern/autograd"
	"github.com/cistern-ml/cistern/autograd/nn"
	"github.com/cistern-ml/cistern/autograd/nn/memreport"
	"github.com/cistern-ml/cistern/device"
	"github.com/cistern-ml/cistern/memory"
	"github.com/cistern-ml/cistern/tensor"
)

// pass is a step without an optimizer.
func pass(s *Session) error {
	m := nn.Linear(100, 10)
	if err := m.To(s.Device); err != nil {
		return err
	}
	defer m.Release()
	g := autograd.NewGraph(s.Device)
	defer g.Release()
	x := g.New(func(e tensor.Exec) (*tensor.Tensor, error) { return tensor.Zeros(e, tensor.Float32, 32, 100) })
	err := m.Forward(x).Sum(nil, false).Backward()
	s.Trained(m.Parameters())
	return err
}

func TestMemoryReport_AddsUpToTheProgramsPeak(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"report.json", "report.txt", "report.svg"} {
		w := Watch{Report: filepath.Join(folder, name)}
		s, err := w.Open("sim:1GiB", 1, io.Discard)
		require.NoError(t, err)
		require.NoError(t, s.Close(pass(s)))
		text, err := os.ReadFile(w.Report)
		require.NoError(t, err)
		require.NotEmpty(t, text)
		if name == "report.json" {
			var r memreport.Report
			require.NoError(t, json.Unmarshal(text, &r))
			require.Equal(t, uint64(s.PeakAllocated), r.Peak)
			require.Equal(t, r.Peak, r.AtPeak.Total())
		}
	}
}

// A step that runs out of memory is what one wants a report of.
func TestMemoryReport_OfAProgramThatFails(t *testing.T) {
	w := Watch{Report: "-"}
	var stderr bytes.Buffer
	s, err := w.Open("sim:64MiB", 1, &stderr)
	require.NoError(t, err)
	b, err := s.Alloc.Alloc(3*device.MiB, s.Device.DefaultStream())
	require.NoError(t, err)
	_, err = s.Alloc.Alloc(device.GiB, s.Device.DefaultStream())
	require.NoError(t, s.Alloc.Free(b))
	require.ErrorIs(t, s.Close(err), memory.ErrOutOfMemory)
	require.Contains(t, stderr.String(), "3MiB allocated at the peak")
}

func TestMemoryReport_RefusesFiles(t *testing.T) {
	for _, file := range []string{"report.png", filepath.Join(t.TempDir(), "absent", "x.svg")} {
		_, err := (&Watch{Report: file}).Open("sim:64MiB", 1, io.Discard)
		require.ErrorContains(t, err, "-memory-report")
	}
}
