package plan

const (
	exactly = 500    // jobs up to which a task is searched exactly: the search takes memory for all pairs that meet
	climbed = 20_000 // jobs up to which its order is improved: each trial places all of them
)

// improve makes one round at a task, twice as long as the one before.
func (t *task) improve(s *search) {
	if len(t.jobs) > climbed {
		s.m.stopped = NoIdea
		return
	}
	if len(t.jobs) <= exactly && t.kept == 0 {
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
