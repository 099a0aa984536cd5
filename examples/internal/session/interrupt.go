package session

// Interruption is ErrInterrupted after Ctrl-C, else nil: what takes long asks between its batches.
func (s *Session) Interruption() error {
	if s.Interrupted() {
		return ErrInterrupted
	}
	return nil
}
