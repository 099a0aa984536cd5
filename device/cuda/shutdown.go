package cuda

import "errors"

// Shutdown implements device.Shutdowner. All devices refuse new calls before the first of them ends: they use each other's events and
// memory. Open waits meanwhile.
func (opener) Shutdown() error {
	if s := begun.Load(); s != nil {
		return s.shutdown()
	}
	return nil
}

func (s *system) shutdown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var devices []*Device
	for i, d := range s.shared { // all gates are shut, then all calls let out, then devices end: a call on one may be about another
		if d != nil {
			d.shut()
			devices = append(devices, d)
			s.shared[i] = nil // the next Open makes a new one
		}
	}
	for _, d := range devices {
		d.gate.Wait()
	}
	errs := make([]error, len(devices))
	for i, d := range devices {
		errs[i] = d.end()
	}
	return errors.Join(errs...)
}
