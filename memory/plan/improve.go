package plan

// improve makes one round at a task, twice as long as the one before.
func (t *task) improve(s *search) {
	if len(t.jobs) <= exactly {
		if t.exact == nil {
			t.exact = newExact(t)
		}
		t.exact.round(s)
	}
	if t.climb == nil {
		t.climb = newClimber(t, s.seed)
	}
	if t.best.size > max(t.lower, s.goal) {
		t.climb.round(s)
	}
}
