package plan

// improve makes one round at a task, twice as long as the one before.
func (t *task) improve(s *search) {
	if t.climb == nil {
		t.climb = newClimber(t, s.seed)
	}
	t.climb.round(s)
}
