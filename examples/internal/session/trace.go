package session

import (
	"errors"
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
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return t.WriteTrace(f)
}
