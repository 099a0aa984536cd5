package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/cistern-ml/cistern/autograd/timeline"
)

// record writes a trace when the session ends, of all that runs until then.
func (s *Session) record(file string) error {
	t, err := timeline.Start(s.Device)
	if err != nil {
		return err
	}
	s.atEnd = append(s.atEnd, func() error {
		t.Stop()
		return writeTrace(file, t)
	})
	return nil
}

func writeTrace(file string, t *timeline.Timeline) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("-trace: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("-trace: %w", err)
		}
	}()
	return t.WriteTrace(f)
}
